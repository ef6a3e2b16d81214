"""Workers of loky's executor write into what the program has."""

from loky import get_reusable_executor


def write(target, i):
    target[i] = i + 1
    return target


if __name__ == "__main__":
    import shmtensor as st
    from tests.helpers.empty_sessions import wait_until_empty

    st.install("loky")
    executor = get_reusable_executor(2)
    tensor = st.zeros(4)
    futures = [executor.submit(write, target, i) for target in (tensor, tensor.numpy()) for i in range(4)]
    results = [future.result(60) for future in futures]
    assert tensor.tolist() == [1, 2, 3, 4]
    results[5][0] = 9
    assert tensor[0] == 9
    del results, futures
    del tensor
    executor.shutdown()
    wait_until_empty()
    st.uninstall("loky")
    tensor = st.zeros(4)
    executor = get_reusable_executor(2)
    executor.submit(write, tensor, 0).result(60)
    assert tensor.tolist() == [0, 0, 0, 0]
    executor.shutdown()
