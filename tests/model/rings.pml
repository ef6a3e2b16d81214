/* The rings of a queue: csrc/channel/queue.cpp, csrc/queue/repair.cpp. Locks and repair are those of queue.pml;
   a process that waits only waits, since waking is queue.pml's subject.

   Each ring is a block with a ticket, but the first one, which is part of the queue's own block and used again
   when the queue is empty. All have the same size here: the sizes play no part in the protocol. Mutations are
   set by -D; tests/model/check.py has the configurations. */
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 5
#endif
#ifndef ENTRIES
#define ENTRIES 2    /* of a ring; one is always spare */
#endif
#ifndef RECORDS
#define RECORDS 3    /* of rings; the code has 16 */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif

#define N (PRODUCERS + CONSUMERS)
#define NUMBERS (MESSAGES + 2)  /* of rings that there can be */
#define FREE 255
#define NONE 255

/* Shared memory */
byte entry[ENTRIES * NUMBERS]; /* the message that an entry names; that of the first ring comes first */
byte name[RECORDS];            /* the ring whose ticket the record names; NONE: the first ring */
byte start[RECORDS];
byte head; byte tail;
byte head_ring; byte tail_ring;
byte lock_word[2];
bool ticket[MESSAGES];
bool ring_ticket[NUMBERS];

bool dead[N];

/* Ghosts */
bool swept[N]; bool done[N];
byte next_message; byte deaths; byte manager_deaths;
byte producer_of[MESSAGES]; byte order[MESSAGES]; bool put[MESSAGES]; byte taker_of[MESSAGES];

#define RECORD_OF(number) ((number) % RECORDS)
/* The bytes of a ring. */
#define BASE(number) (name[RECORD_OF(number)] == NONE -> 0 : ENTRIES * name[RECORD_OF(number)])
#define ENTRY(number, count) entry[BASE(number) + ((count) - start[RECORD_OF(number)]) % ENTRIES]
#define MAX(a, b) ((a) > (b) -> (a) : (b))

#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } :: d_step { x } fi
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; goto restart } :: d_step { x } fi
#define LOCK(which) \
  if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } \
     :: atomic { lock_word[which] == FREE -> lock_word[which] = me } \
  fi
#define UNLOCK(which) STEP(lock_word[which] = FREE)

proctype producer(byte me) {
  byte m; byte h; byte number; bool ok;
  do
  :: atomic { next_message < MESSAGES -> m = next_message; producer_of[m] = me; next_message++ };
again:
     LOCK(0);
     STEP(h = head);
     STEP(number = tail_ring);
     STEP(ok = number + 1 - head_ring < RECORDS);
     if
     :: tail - MAX(h, start[RECORD_OF(number)]) >= ENTRIES - 1 && !ok ->
        UNLOCK(0);
        /* The last message of the oldest ring was taken, or one of this ring. */
end_full:
        (tail - MAX(head, start[RECORD_OF(number)]) < ENTRIES - 1 || tail_ring + 1 - head_ring < RECORDS);
        goto again
     :: tail - MAX(h, start[RECORD_OF(number)]) >= ENTRIES - 1 && ok ->
        number++;
#ifdef RING_BEFORE_START
        STEP(tail_ring = number);
#endif
        STEP(name[RECORD_OF(number)] = NONE);
        STEP(start[RECORD_OF(number)] = tail);
        STEP(name[RECORD_OF(number)] = number);
        STEP(ring_ticket[number] = true);
#ifndef RING_BEFORE_START
        STEP(tail_ring = number)
#endif
     :: else ->
        if
        :: h == tail && ok && tail != start[RECORD_OF(number)] && name[RECORD_OF(number)] != NONE &&
           (tail - start[RECORD_OF(number)]) % ENTRIES == 0 ->
           number++;
           STEP(name[RECORD_OF(number)] = NONE);
           STEP(start[RECORD_OF(number)] = tail);
           STEP(tail_ring = number)
#ifdef RETURN_WITH_MESSAGES
        :: h < tail && ok && tail != start[RECORD_OF(number)] && name[RECORD_OF(number)] != NONE ->
           number++;
           STEP(name[RECORD_OF(number)] = NONE);
           STEP(start[RECORD_OF(number)] = tail);
           STEP(tail_ring = number)
#endif
        :: else
        fi
     fi;
     STEP(ENTRY(number, tail) = NONE);
     STEP(ENTRY(number, tail) = m);
     STEP(ticket[m] = true);
     STEP(order[tail] = m; put[m] = true; tail++);
     UNLOCK(0); h = 0; number = 0; m = 0; ok = false
  :: atomic { next_message == MESSAGES -> break }
  od;
  done[me] = true;
killed:
  skip
}

proctype consumer(byte me) {
  byte m; byte h; byte t; byte number; bool ok;
end:
  do
  :: head < tail ->
     LOCK(1);
     STEP(h = head);
#ifndef COUNT_AFTER_RINGS
     STEP(t = tail);
#endif
     number = head_ring;
     do
     :: STEP(ok = number != tail_ring && start[RECORD_OF(number + 1)] == h);
        if
        :: !ok -> break
        :: else ->
#ifdef NUMBER_BEFORE_CANCEL
           STEP(head_ring = number + 1);
#endif
           /* The arena's search for the ticket, and the attempt to free the ring, are block.pml's. */
           if :: name[RECORD_OF(number)] != NONE -> STEP(ring_ticket[name[RECORD_OF(number)]] = false)
              :: else fi;
#ifndef NUMBER_BEFORE_CANCEL
           STEP(head_ring = number + 1);
#endif
           number++
        fi
     od;
#ifdef COUNT_AFTER_RINGS
     STEP(t = tail);
#endif
     if
     :: h < t ->
        STEP(m = ENTRY(number, h); assert(m == order[h]));
        STEP(assert(ticket[m] && taker_of[m] == NONE); ticket[m] = false; taker_of[m] = me);
        STEP(head = h + 1)
     :: else
     fi;
     UNLOCK(1); m = 0; h = 0; t = 0; number = 0; ok = false
  od;
killed:
  skip
}

#define CANCEL_NEXT_RING \
  MSTEP(number = tail_ring + 1; \
        m = (number - head_ring < RECORDS -> name[RECORD_OF(number)] : NONE)); \
  if :: m != NONE -> MSTEP(ring_ticket[m] = false) :: else fi

proctype manager() {
  byte p; byte m; byte number; bool ok;
restart:
  atomic { p = 0; m = 0; number = 0; ok = false };
end:
  do
  :: atomic { dead[0] && !swept[0] -> p = 0 }; goto sweep
  :: atomic { dead[1] && !swept[1] -> p = 1 }; goto sweep
  :: atomic { N > 2 && dead[2 % N] && !swept[2 % N] -> p = 2 }; goto sweep
sweep:
     if
     :: lock_word[0] == p ->
        MSTEP(m = ENTRY(tail_ring, tail));
        if :: m != NONE -> MSTEP(ticket[m] = false) :: else fi;
#ifndef KEEP_NEXT_RING
        CANCEL_NEXT_RING;
#endif
        MSTEP(lock_word[0] = FREE)
     :: else
     fi;
     if
     :: lock_word[1] == p ->
        MSTEP(ok = head < tail);
        if
        :: ok ->
           MSTEP(number = head_ring);
#ifndef RING_OF_HEAD_ONLY
           MSTEP(if :: number != tail_ring && start[RECORD_OF(number + 1)] == head -> number++ :: else fi);
#endif
           MSTEP(m = ENTRY(number, head));
           MSTEP(ok = m != NONE && !ticket[m]);
           if :: ok -> MSTEP(head++) :: else fi
        :: else
        fi;
        MSTEP(lock_word[1] = FREE)
     :: else
     fi;
     m = 0; number = 0; ok = false;
     MSTEP(swept[p] = true)
  od
}

proctype judge() {
  byte p; byte m; bool consumers;
  atomic {
    timeout ->
    p = PRODUCERS;
    do :: p < N -> consumers = consumers || !dead[p]; p++ :: else -> break od;
    p = 0;
    do :: p < PRODUCERS -> assert(done[p] || dead[p] || !consumers); p++ :: else -> break od;
    assert(!consumers || head == tail);
    do
    :: m < MESSAGES ->
       assert(!ticket[m] || (put[m] && taker_of[m] == NONE && !consumers));
       if :: m < next_message && !dead[producer_of[m]] && consumers -> assert(put[m]) :: else fi;
       if :: put[m] && consumers -> assert(taker_of[m] != NONE) :: else fi;
       m++
    :: else -> break
    od;
    m = 0;
    do  /* A ring that has a ticket is in use. */
    :: m < NUMBERS -> assert(!ring_ticket[m] || (m >= head_ring && m <= tail_ring)); m++
    :: else -> break
    od
  }
}

init {
  byte i;
  atomic {
    lock_word[0] = FREE; lock_word[1] = FREE;
    do :: i < MESSAGES -> taker_of[i] = NONE; order[i] = NONE; i++ :: else -> break od;
    i = 0;
    do :: i < RECORDS -> name[i] = NONE; i++ :: else -> break od;
    i = 0;
    do :: i < ENTRIES * NUMBERS -> entry[i] = NONE; i++ :: else -> break od;
    i = 0;
    do :: i < PRODUCERS -> run producer(i); i++ :: else -> break od;
    do :: i < N -> run consumer(i); i++ :: else -> break od;
    run manager(); run judge()
  }
}
