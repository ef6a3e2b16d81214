"""A manager of a class of the program, and the manager's own queue and dict."""

import multiprocessing as mp
import sys
from multiprocessing.managers import BaseManager


class Bank:
    def __init__(self, balance):
        self.balance = balance

    def pay_in(self, amount):
        self.balance += amount
        return self.balance


class BankManager(BaseManager):
    pass


BankManager.register("Bank", Bank)


def work(bank, found):
    bank.pay_in(10)
    found["paid"] = 10


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    with BankManager() as manager, mp.Manager() as shared:
        bank, found = manager.Bank(5), shared.dict()
        worker = mp.Process(target=work, args=(bank, found))
        worker.start()
        worker.join()
        print(bank.pay_in(0), dict(found), shared.Queue(3).qsize())
