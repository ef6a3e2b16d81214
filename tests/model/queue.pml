/* The protocol of a queue in shared memory that survives SIGKILL: csrc/queue, csrc/channel/queue.cpp. Its rings
   are rings.pml's subject.

   A ring of entries; producers under one lock and consumers under another. The compare-and-swap that takes a
   lock writes its owner. Only the manager takes a lock from a dead process: as long as the word names the dead
   owner, it repairs what that may have left, a ticket of a message that was not put yet, or a message that was
   taken and is still counted. Then it unlocks, and last it clears what makes the death known: the holder bits
   and the slot. A producer records the name of a ticket in the entry before it issues the ticket, and the count
   of messages commits both. Waiters sleep on a word that is set while any process may be asleep.

   Any process may be killed before any step. Every access to shared memory is one step, and sequentially
   consistent. Every message carries a tensor, so it has a ticket: what a death could lose or leave behind.
   That a claimed ticket keeps the block for its claimer is block.pml's subject. A process that waits for a lock
   sleeps for a bounded time, then checks the word again: here it waits. Sizes and mutations are set by -D;
   tests/model/check.py has the configurations. */
#ifndef PRODUCERS
#define PRODUCERS 2
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3 /* at most 4; a producer that is free puts the next one */
#endif
#ifndef ROOM
#define ROOM 1     /* messages that fit into the queue; the ring has an entry more */
#endif
#ifndef DEATHS
#define DEATHS 1   /* processes that may be killed */
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif

#define N (PRODUCERS + CONSUMERS)
#define FREE 255
#define NONE 255
#define RING (ROOM + 1)
#define bit(p) (1 << (p))

/* Shared memory */
typedef Entry { bit low; bit high; bool valid };
Entry entry[RING];       /* the record of the message's ticket, written in two halves */
byte head; byte tail;    /* counts of messages taken and put */
byte lock_word[2];       /* owner of the lock of the tail (0) and of the head (1), or FREE */
bool waiting[2];         /* a process may be asleep: until there is a message (0), until there is room (1) */
byte fresh[2];           /* the word is as it was when these announced themselves: it counts how often it is cleared */
bool ticket[MESSAGES];   /* live: the block of the message is allocated */

/* The kernel */
byte asleep[2];          /* processes that sleep until a word changes, as bits */
bool dead[N];

/* Ghosts: no process can read them */
bool swept[N]; bool done[N];
byte next_message; byte deaths; byte manager_deaths;
byte producer_of[MESSAGES]; bool put[MESSAGES]; byte taker_of[MESSAGES];

#define MESSAGE_IN(e) (2 * entry[e].high + entry[e].low)

/* One step of process `me`, or its death. */
#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } :: d_step { x } fi
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; goto restart } :: d_step { x } fi

/* Wake one sleeper, any of them; ok: there was one. */
inline wake_one(k) {
  if :: asleep[k] & bit(0) -> asleep[k] = asleep[k] & ~bit(0)
     :: asleep[k] & bit(1) -> asleep[k] = asleep[k] & ~bit(1)
     :: asleep[k] & bit(2) -> asleep[k] = asleep[k] & ~bit(2)
     :: asleep[k] & bit(3) -> asleep[k] = asleep[k] & ~bit(3)
     :: asleep[k] == 0 -> ok = false
  fi
}
/* As STEP, for a step with a choice in it. */
#define CHOICE(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } :: atomic { x } fi

/* Wake one waiter: without a waiter this is one load. If none was asleep, the word is cleared and counts that;
   then a process that fell asleep in between is woken, and one that is about to fall asleep finds the word
   changed, also if another one has announced itself since. */
#ifdef CLEAR_WITHOUT_COUNT
#define CHANGED(k) !waiting[k]
#else
#define CHANGED(k) !(fresh[k] & bit(me))
#endif
#ifdef CLEAR_WITHOUT_WAKE
#define CLEAR(DO, k) DO(waiting[k] = false; fresh[k] = 0)
#else
#define CLEAR(DO, k) DO(waiting[k] = false; fresh[k] = 0); DO(asleep[k] = 0)
#endif
#define NOTIFY(k) \
  STEP(ok = waiting[k]); \
  if :: ok -> CHOICE(wake_one(k)); \
              if :: !ok -> CLEAR(STEP, k) :: else fi \
     :: else fi; \
  ok = false

/* Announce, look, sleep. The kernel compares the word and puts the process to sleep in one step. */
#define ANNOUNCE(k) STEP(waiting[k] = true; fresh[k] = fresh[k] | bit(me))
#ifdef LOOK_BEFORE_ANNOUNCING
#define ANNOUNCE_AND_LOOK(k, ready) STEP(ok = ready); ANNOUNCE(k)
#else
#define ANNOUNCE_AND_LOOK(k, ready) \
  ANNOUNCE(k); STEP(ok = ready; if :: ok -> fresh[k] = fresh[k] & ~bit(me) :: else fi)
#endif
#define WAIT(k, ready) \
  ANNOUNCE_AND_LOOK(k, ready); \
  if :: !ok -> \
        STEP(if :: CHANGED(k) :: else -> asleep[k] = asleep[k] | bit(me) fi; fresh[k] = fresh[k] & ~bit(me)); \
end_asleep: \
        if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; asleep[k] = asleep[k] & ~bit(me); goto killed } \
           :: !(asleep[k] & bit(me)) \
        fi \
     :: else fi; \
  ok = false

/* What a dead owner of the lock may have left: of the tail, a ticket of a message that it had not put yet; of
   the head, a message whose ticket it had claimed. Each step may be repeated by the next manager. */
#ifdef NO_CANCEL
#define REPAIR_TAIL
#else
#define REPAIR_TAIL \
  MSTEP(ok = entry[tail % RING].valid; r = MESSAGE_IN(tail % RING)); \
  if :: ok -> MSTEP(ticket[r] = false) :: else fi; r = 0
#endif
#ifdef NO_SKIP
#define REPAIR_HEAD
#else
#define REPAIR_HEAD \
  MSTEP(ok = head < tail; r = MESSAGE_IN(head % RING)); \
  if :: ok -> MSTEP(ok = !ticket[r]) :: else fi; r = 0; \
  if :: ok -> MSTEP(head++) :: else fi
#endif
#ifdef UNLOCK_BEFORE_REPAIR
#define RELEASE_DEAD(which, REPAIR) MSTEP(lock_word[which] = FREE); REPAIR
#else
#define RELEASE_DEAD(which, REPAIR) REPAIR; MSTEP(lock_word[which] = FREE)
#endif

#define LOCK(which) \
  if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } \
     :: atomic { lock_word[which] == FREE -> lock_word[which] = me } \
  fi
#define UNLOCK(which) STEP(lock_word[which] = FREE)

#ifdef KEEP_VALID
#define INVALIDATE
#else
#define INVALIDATE STEP(entry[tail % RING].valid = false);
#endif
#define RECORD \
  INVALIDATE \
  STEP(entry[tail % RING].low = m & 1); \
  STEP(entry[tail % RING].high = m >> 1); \
  STEP(entry[tail % RING].valid = true)
#define ISSUE STEP(ticket[m] = true)
#ifdef TICKET_BEFORE_RECORD
#define RECORD_AND_ISSUE ISSUE; RECORD
#else
#define RECORD_AND_ISSUE RECORD; ISSUE
#endif

proctype producer(byte me) {
  byte m; bool ok;
  do
  :: atomic { next_message < MESSAGES -> m = next_message; producer_of[m] = me; next_message++ };
again:
     LOCK(0);
     STEP(ok = tail - head < ROOM);
     if
     :: ok ->
        ok = false;
        RECORD_AND_ISSUE;
        STEP(tail++; put[m] = true);
        UNLOCK(0);
        NOTIFY(0); m = 0
     :: else ->
        UNLOCK(0);
        WAIT(1, tail - head < ROOM);
        goto again
     fi
  :: atomic { next_message == MESSAGES -> break }
  od;
  done[me] = true;
killed:
  skip
}

proctype consumer(byte me) {
  byte m; bool ok;
  do
  :: LOCK(1);
     STEP(ok = head < tail);
     if
     :: ok ->
        ok = false;
        STEP(m = MESSAGE_IN(head % RING));
#ifdef COUNT_BEFORE_CLAIM
        STEP(head++);
        STEP(assert(ticket[m] && taker_of[m] == NONE); ticket[m] = false; taker_of[m] = me);
#else
        STEP(assert(ticket[m] && taker_of[m] == NONE); ticket[m] = false; taker_of[m] = me);
        STEP(head++);
#endif
        m = 0;
        UNLOCK(1);
        NOTIFY(1)
     :: else ->
        UNLOCK(1);
        WAIT(0, head < tail)
     fi
  od;
killed:
  skip
}

/* The manager sweeps each death: it repairs what the dead process had locked, and wakes all waiters, since one
   that was woken may have been killed before it could act. A new manager finds the deaths that were not swept,
   and repeats. */
proctype manager() {
  byte p; byte r; bool ok;
restart:
  atomic { p = 0; ok = false; r = 0 };
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
     MSTEP(ok = lock_word[0] == p);
     if :: ok -> RELEASE_DEAD(0, REPAIR_TAIL) :: else fi;
     MSTEP(ok = lock_word[1] == p);
     if :: ok -> RELEASE_DEAD(1, REPAIR_HEAD) :: else fi;
     ok = false;
#ifndef NO_WAKE_IN_SWEEP
     CLEAR(MSTEP, 0); CLEAR(MSTEP, 1);
#endif
     MSTEP(swept[p] = true)
  od
}

/* Judges the state in which no process can continue. */
proctype judge() {
  byte p; byte m; bool consumers; bool all_put = true;
  atomic {
    timeout ->
    p = PRODUCERS;
    do :: p < N -> consumers = consumers || !dead[p]; p++ :: else -> break od;
    p = 0;
    do :: p < PRODUCERS -> assert(done[p] || dead[p] || (!consumers && tail - head == ROOM)); p++ :: else -> break od;
    assert(!consumers || head == tail);
    do
    :: m < MESSAGES ->
       /* What stays allocated can be read: it is in the queue. */
       assert(!ticket[m] || (put[m] && taker_of[m] == NONE && !consumers));
       /* A message is missing only if its producer was killed before it had put it, or its taker after. */
       if :: m < next_message && !dead[producer_of[m]] && consumers -> assert(put[m]) :: else fi;
       if :: put[m] && consumers -> assert(taker_of[m] != NONE) :: else fi;
       m++
    :: else -> break
    od
  }
}

init {
  byte i;
  atomic {
    lock_word[0] = FREE; lock_word[1] = FREE;
    do :: i < MESSAGES -> taker_of[i] = NONE; i++ :: else -> break od;
    i = 0;
    do :: i < PRODUCERS -> run producer(i); i++ :: else -> break od;
    do :: i < N -> run consumer(i); i++ :: else -> break od;
    run manager(); run judge()
  }
}
