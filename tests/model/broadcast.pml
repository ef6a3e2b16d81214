/* The protocol of a broadcast in shared memory that survives SIGKILL: csrc/queue/broadcast_layout.hpp,
   csrc/channel/broadcast.cpp.

   A ring with one entry more than messages fit. Writers act under one lock, which names its owner; readers
   take none. Each reader has a record with the position of its next message. A message carries one ticket for
   all readers. A reader copies the name of the ticket, checks that the entry is still that of its position,
   and makes itself a holder of the block: it sets its bit, then changes the epoch of the live block, as
   block.pml has it. Then it stores its next position. Whoever finds, after a message was counted, that no
   reader has still to read it, cancels its ticket: a reader that has taken it, one that leaves or has just
   joined, the writer, the manager. The writer cancels the ticket of a message that has left the window of the
   last LIMIT messages; with DROP it does not wait until all readers have passed it.

   A reader joins without the lock: it stores the count of messages as its position, makes its record active,
   and reads the count again.

   Any process may be killed before any step, the manager too. Every access to shared memory is one step, and
   sequentially consistent. Sizes and mutations are set by -D; tests/model/check.py has the configurations. */
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3 /* at most 4 */
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif
#ifndef LEAVES
#define LEAVES 1   /* readers that may leave */
#endif

#define N (WRITERS + READERS)
#define FREE 255
#ifdef NO_SPARE
#define RING LIMIT
#else
#define RING (LIMIT + 1)
#endif
#define bit(p) (1 << (p))

/* Shared memory */
typedef Entry { bit low; bit high; bool valid };
Entry entry[RING];       /* the name of the message's ticket, written in two halves */
byte tail;               /* messages that were put */
byte lock_word;
byte passed;             /* the writer's: readers have passed all messages before this one */
byte next[READERS]; bool reads[READERS];
bool waiting[2]; byte fresh[2];  /* as in queue.pml: until there is a message (0), until there is room (1) */
bool ticket[MESSAGES];
bool live[MESSAGES]; byte epoch[MESSAGES]; byte holders[MESSAGES];  /* the block of each message */

/* The kernel */
byte asleep[2]; bool dead[N];

/* Ghosts */
bool swept[N]; bool done[N]; bool joined[READERS]; byte expected[READERS];
byte deaths; byte manager_deaths; byte leaves; byte dropped;

#define MESSAGE_IN(e) (2 * entry[e].high + entry[e].low)
#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } :: d_step { x } fi
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; goto restart } :: d_step { x } fi

#define WAKE(DO, k) DO(waiting[k] = false; fresh[k] = 0); DO(asleep[k] = 0)
#define NOTIFY(k) STEP(ok = waiting[k]); if :: ok -> WAKE(STEP, k) :: else fi; ok = false
#define ANNOUNCE(k) STEP(waiting[k] = true; fresh[k] = fresh[k] | bit(me))
#define FORGET(k) if :: ok -> fresh[k] = fresh[k] & ~bit(me) :: else fi
/* `LOOK(DO)` sets ok. The kernel compares the word and puts the process to sleep in one step. */
#ifdef LOOK_BEFORE_ANNOUNCING
#define ANNOUNCE_AND_LOOK(k, LOOK) LOOK; ANNOUNCE(k)
#else
#define ANNOUNCE_AND_LOOK(k, LOOK) ANNOUNCE(k); LOOK; STEP(FORGET(k))
#endif
#define WAIT(k, LOOK) \
  ANNOUNCE_AND_LOOK(k, LOOK); \
  if :: !ok -> \
        STEP(if :: !(fresh[k] & bit(me)) :: else -> asleep[k] = asleep[k] | bit(me) fi; fresh[k] = fresh[k] & ~bit(me)); \
end_asleep: \
        if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; asleep[k] = asleep[k] & ~bit(me); goto killed } \
           :: !(asleep[k] & bit(me)) \
        fi \
     :: else fi; \
  ok = false

/* ok: no reader has still to read message x. One record at a time. */
#define ALL_PASSED(DO, x) \
  i = 0; ok = true; \
  do :: ok && i < READERS -> DO(ok = !(reads[i] && next[i] <= (x)); i++) :: else -> break od; \
  i = 0
/* ok: message x fits, as the scan finds it. */
#ifdef DROP
#define HAS_ROOM ok = true
#else
#define HAS_ROOM \
  STEP(t = tail); \
  if :: t < LIMIT -> ok = true :: else -> ALL_PASSED(STEP, t - LIMIT) fi
#endif

/* Frees the block of message x if it has neither ticket nor holder. With COARSE, blocks are freed and held, and
   names are written and read, in one step each. */
#ifdef COARSE
#define CHANGE_EPOCH(x) skip
#define TRY_FREE(DO, x) \
  DO(if :: !ticket[x] && holders[x] == 0 -> live[x] = false :: else fi); ok = false
#define HOLD(x) STEP(ok = live[x]; if :: ok -> holders[x] = holders[x] | bit(me) :: else fi)
#else
#define CHANGE_EPOCH(x) epoch[x]++
#define HOLD(x) STEP(holders[x] = holders[x] | bit(me)); STEP(ok = live[x]; if :: ok -> epoch[x]++ :: else fi)
#define TRY_FREE(DO, x) \
  DO(ok = live[x]; e = epoch[x]); \
  if :: ok -> DO(ok = !ticket[x]) :: else fi; \
  if :: ok -> DO(ok = holders[x] == 0) :: else fi; \
  if :: ok -> DO(if :: live[x] && epoch[x] == e -> live[x] = false :: else fi) :: else fi; \
  ok = false; e = 0
#endif

/* Cancels the tickets of the messages from f to before l that all readers have passed. Another message is in
   the entry of one that has left the window. */
#define RELEASE(DO, f, l) \
  m = f; \
  do \
  :: m < l -> \
     ALL_PASSED(DO, m); \
     if :: ok -> DO(ok = entry[m % RING].valid; h = MESSAGE_IN(m % RING)) :: else fi; \
     if :: ok -> DO(ok = tail - m <= LIMIT) :: else fi; \
     if :: ok -> assert(h == m); DO(ticket[h] = false); TRY_FREE(DO, h) :: else fi; \
     m++ \
  :: else -> break \
  od; \
  m = 0; h = 0; ok = false

#define LOCK \
  if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } \
     :: atomic { lock_word == FREE -> lock_word = me } \
  fi
#define UNLOCK STEP(lock_word = FREE)

#ifdef COARSE
#define RECORD \
  STEP(entry[t % RING].low = t & 1; entry[t % RING].high = t >> 1; entry[t % RING].valid = true)
#define COPY STEP(ok = entry[n % RING].valid; h = MESSAGE_IN(n % RING))
#else
#define COPY \
  STEP(ok = entry[n % RING].valid; h = entry[n % RING].low); \
  STEP(h = h + 2 * entry[n % RING].high)
#define RECORD \
  STEP(entry[t % RING].valid = false); \
  STEP(entry[t % RING].low = t & 1); \
  STEP(entry[t % RING].high = t >> 1); \
  STEP(entry[t % RING].valid = true)
#endif
/* The writer holds the block, which is a new one. */
#define ISSUE STEP(assert(!ticket[t] && holders[t] == bit(me)); ticket[t] = true; CHANGE_EPOCH(t))
#ifdef TICKET_BEFORE_RECORD
#define RECORD_AND_ISSUE ISSUE; RECORD
#else
#define RECORD_AND_ISSUE RECORD; ISSUE
#endif
#define LEAVING (t + 1 - RING)
#define CANCEL_LEAVING \
  if :: t + 1 >= RING -> \
        STEP(ok = entry[(t + 1) % RING].valid && ticket[MESSAGE_IN((t + 1) % RING)]); \
        if :: ok -> STEP(ticket[LEAVING] = false); TRY_FREE(STEP, LEAVING) :: else fi \
     :: else fi
#ifdef CANCEL_BEFORE_COUNT
#define CANCEL_FIRST CANCEL_LEAVING;
#define CANCEL_LAST
#else
#define CANCEL_FIRST
#define CANCEL_LAST CANCEL_LEAVING;
#endif

proctype writer(byte me) {
  byte t; byte i; byte e; byte m; byte present; bool ok;
  do
  :: atomic { tail + dropped < MESSAGES; present = 0; i = 0;
       do :: i < READERS -> if :: joined[i] -> present = present | bit(i) :: else fi; i++ :: else -> break od; i = 0 };
again:
     LOCK;
     STEP(t = tail; ok = tail + dropped < MESSAGES);
     if :: !ok -> UNLOCK; goto next_one :: else fi;
     /* Without a reader there is nothing to do. */
     i = 0; ok = false;
     do :: !ok && i < READERS -> STEP(ok = reads[i]; i++) :: else -> break od;
     i = 0;
     if
     :: !ok ->
        STEP(dropped++);
        i = 0;
        do :: i < READERS -> assert(!(present & bit(i) && joined[i] && !dead[WRITERS + i])); i++ :: else -> break od;
        i = 0;
        UNLOCK; goto next_one
     :: else
     fi;
     if :: t - passed < LIMIT -> ok = true
        :: else ->
           HAS_ROOM;
#ifndef DROP
           if :: ok -> STEP(passed = t + 1 - LIMIT) :: else fi
#endif
     fi;
     if
     :: ok ->
        ok = false;
        /* A dead writer's block for the same message is another one, which has been swept here. */
        if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed }
           :: atomic { !live[t] && holders[t] == 0 -> live[t] = true; holders[t] = bit(me) }
        fi;
        CANCEL_FIRST
        RECORD_AND_ISSUE;
        STEP(tail++);
        CANCEL_LAST
        UNLOCK;
        NOTIFY(0);
#ifndef WRITER_KEEPS
        ALL_PASSED(STEP, t);
        if :: ok -> STEP(ticket[t] = false) :: else fi;
#endif
        STEP(holders[t] = holders[t] & ~bit(me));
        TRY_FREE(STEP, t)
     :: else ->
        UNLOCK;
        WAIT(1, HAS_ROOM);
        goto again
     fi;
next_one:
     present = 0; ok = false; t = 0
  :: atomic { tail + dropped == MESSAGES -> break }
  od;
  done[me] = true;
killed:
  skip
}

#define R (me - WRITERS)
#define PASS(x) \
  STEP(next[R] = (x) + 1; assert((x) >= expected[R]); WITHOUT_GAP(x); expected[R] = (x) + 1)
#ifdef DROP
#define WITHOUT_GAP(x) skip
#else
#define WITHOUT_GAP(x) assert((x) == expected[R])
#endif
#ifdef PASS_BEFORE_HOLD
#define HOLD_AND_PASS(x) PASS(x); HOLD(x)
#else
#define HOLD_AND_PASS(x) HOLD(x); if :: ok -> PASS(x) :: else fi
#endif
#define TELL_ROOM \
  STEP(ok = waiting[1]); \
  if :: ok -> HAS_ROOM :: else fi; \
  if :: ok -> WAKE(STEP, 1) :: else fi; \
  ok = false

proctype reader(byte me) {
  byte t; byte i; byte e; byte h; byte m; byte n; bool ok;
  /* Join. */
  STEP(t = tail; n = tail);
  STEP(next[R] = t);
#ifdef COUNT_BEFORE_ACTIVE
  STEP(t = tail);
  STEP(reads[R] = true);
  STEP(next[R] = t; expected[R] = t);
#else
  STEP(reads[R] = true);
#ifndef COUNT_ONCE
  STEP(t = tail);
#endif
  STEP(next[R] = t; expected[R] = t);
#endif
  RELEASE(STEP, n, t);
#ifndef DROP
  if :: n != t -> TELL_ROOM :: else fi;
#endif
  joined[R] = true; n = 0; t = 0;
  do
  :: STEP(t = tail; n = next[R]);
     if
     :: t == n ->
        WAIT(0, STEP(ok = tail != n))
     :: else ->
        if :: t - n > LIMIT -> STEP(n = t - LIMIT; next[R] = n) :: else fi;
        COPY;
#ifndef NO_CHECK
        STEP(t = tail; ok = ok && t - n <= LIMIT);
#endif
        if
        :: ok ->
           assert(h == n);
           HOLD_AND_PASS(n);
           if
           :: ok ->
              assert(live[n]);
#ifndef DROP
              TELL_ROOM;
#endif
#ifndef READER_KEEPS
              ALL_PASSED(STEP, n);
              if :: ok -> STEP(ticket[n] = false) :: else fi;
#endif
           :: else ->
              /* Not lost: it has left the window. */
              STEP(assert(tail - n > LIMIT))
           fi;
           STEP(assert(!ok || live[n]); holders[n] = holders[n] & ~bit(me));
           TRY_FREE(STEP, n)
        :: else -> assert(tail - n > LIMIT)
        fi
     fi;
     t = 0; n = 0; h = 0; ok = false
  :: atomic { leaves < LEAVES -> leaves++ };
     STEP(reads[R] = false; joined[R] = false);
#ifndef DROP
#ifndef LEAVE_SILENTLY
     TELL_ROOM;
#endif
#endif
     STEP(n = next[R]; t = tail);
#ifndef LEAVE_MESSAGES
     RELEASE(STEP, n, t);
#endif
     break
  od;
killed:
  skip
}

/* The ticket that a dead owner of the lock has left in the spare entry. */
#ifdef NO_CANCEL
#define REPAIR
#else
#define REPAIR \
  MSTEP(ok = entry[tail % RING].valid; h = MESSAGE_IN(tail % RING)); \
  if :: ok -> MSTEP(ticket[h] = false); TRY_FREE(MSTEP, h) :: else fi; h = 0; ok = false
#endif
#ifdef UNLOCK_BEFORE_REPAIR
#define RELEASE_DEAD MSTEP(lock_word = FREE); REPAIR
#else
#define RELEASE_DEAD REPAIR; MSTEP(lock_word = FREE)
#endif

proctype manager() {
  byte p; byte h; byte i; byte e; byte m; byte l; bool ok;
restart:
  atomic { p = 0; ok = false; h = 0; i = 0; e = 0; m = 0; l = 0 };
end:
  do
  :: atomic { dead[0] && !swept[0] -> p = 0 }; goto sweep
  :: atomic { N > 1 && dead[1] && !swept[1] -> p = 1 }; goto sweep
  :: atomic { N > 2 && dead[2 % N] && !swept[2 % N] -> p = 2 }; goto sweep
  :: atomic { N > 3 && dead[3 % N] && !swept[3 % N] -> p = 3 }; goto sweep
sweep:
#ifdef SWEPT_BEFORE_REPAIR
     MSTEP(swept[p] = true);
#endif
     MSTEP(ok = lock_word == p);
     if :: ok -> RELEASE_DEAD :: else fi;
#ifndef KEEP_RECORDS
     if :: p >= WRITERS -> MSTEP(reads[p - WRITERS] = false; joined[p - WRITERS] = false) :: else fi;
#endif
#ifndef KEEP_PASSED
     MSTEP(l = tail);
     RELEASE(MSTEP, (l < LIMIT -> 0 : l - LIMIT), l);
#endif
#ifndef NO_WAKE_IN_SWEEP
     WAKE(MSTEP, 0); WAKE(MSTEP, 1);
#endif
     /* Its holder bits; then every block without holder. */
     l = 0;
     do :: l < MESSAGES -> MSTEP(holders[l] = holders[l] & ~bit(p)); TRY_FREE(MSTEP, l); l++ :: else -> break od;
     l = 0;
     MSTEP(swept[p] = true)
  od
}

/* Judges the state in which no process can continue: the readers that live sleep. */
proctype judge() {
  byte p; byte m;
  atomic {
    timeout ->
    do :: p < WRITERS -> assert(done[p] || dead[p]); p++ :: else -> break od;
    p = 0;
    do :: p < READERS -> assert(!joined[p] || dead[WRITERS + p] || next[p] == tail); p++ :: else -> break od;
    /* All readers have passed all messages, so none is allocated. */
    do :: m < MESSAGES -> assert(!ticket[m] && !live[m]); m++ :: else -> break od
  }
}

init {
  byte i;
  atomic {
    lock_word = FREE;
    do :: i < WRITERS -> run writer(i); i++ :: else -> break od;
    do :: i < N -> run reader(i); i++ :: else -> break od;
    run manager(); run judge()
  }
}
