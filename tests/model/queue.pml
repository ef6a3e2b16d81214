/* The protocol of a queue in shared memory that survives SIGKILL. The code comes after this model.

   A ring of entries; producers under one lock and consumers under another. The compare-and-swap that takes a
   lock writes its owner, so a process that takes over the lock of a dead one, a waiter or the manager, knows
   what to repair: a ticket of a message that was not put yet, or a message that was taken and is still
   counted. A producer records the name of a ticket in the entry before it issues the ticket, and the count of
   messages commits both. Waiters sleep on a word that has a bit, set while any process may be asleep, and a
   count of how often that was cleared: a process that announced itself before the word was cleared must not
   fall asleep because another one announced itself after.

   Any process may be killed before any step. Every access to shared memory is one step, and sequentially
   consistent. Every message carries a tensor, so it has a ticket: what a death could lose or leave behind.
   That a claimed ticket keeps the block for its claimer is block.pml's subject. Sizes and mutations are set by
   -D; tests/model/check.py has the configurations. */
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
#define MANAGER N
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
byte fresh[2];           /* for the count: as bits, the waiters since whose announcement it is unchanged */
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

/* Wake one waiter: without a waiter this is one load. If none was asleep, the word is cleared; then a process
   that fell asleep in between is woken, and one that is about to fall asleep finds the word changed. */
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
#ifdef NO_COUNT
#define UNCHANGED(k) waiting[k]
#else
#define UNCHANGED(k) fresh[k] & bit(me)
#endif
#define ANNOUNCE(k) STEP(waiting[k] = true; fresh[k] = fresh[k] | bit(me))
#ifdef LOOK_BEFORE_ANNOUNCING
#define ANNOUNCE_AND_LOOK(k, ready) STEP(ok = ready); ANNOUNCE(k)
#else
#define ANNOUNCE_AND_LOOK(k, ready) ANNOUNCE(k); STEP(ok = ready)
#endif
#define WAIT(k, ready) \
  ANNOUNCE_AND_LOOK(k, ready); \
  if :: !ok -> \
        STEP(if :: UNCHANGED(k) -> asleep[k] = asleep[k] | bit(me) :: else fi); \
end_asleep: \
        if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; asleep[k] = asleep[k] & ~bit(me); goto killed } \
           :: !(asleep[k] & bit(me)) \
        fi \
     :: else fi; \
  d_step { ok = false; fresh[k] = fresh[k] & ~bit(me) }

/* What a dead owner of the lock may have left: of the tail, a ticket of a message that it had not put yet; of
   the head, a message whose ticket it had claimed. Then all waiters check again. Each step may be
   repeated. */
#ifdef NO_CANCEL
#define REPAIR_TAIL(DO)
#else
#define REPAIR_TAIL(DO) \
  DO(ok = entry[tail % RING].valid; r = MESSAGE_IN(tail % RING)); \
  if :: ok -> DO(ticket[r] = false) :: else fi; r = 0
#endif
#ifdef NO_SKIP
#define REPAIR_HEAD(DO)
#else
#define REPAIR_HEAD(DO) \
  DO(ok = head < tail; r = MESSAGE_IN(head % RING)); \
  if :: ok -> DO(ok = !ticket[r]) :: else fi; r = 0; \
  if :: ok -> DO(head++) :: else fi
#endif
#define REPAIR(DO, which) \
  if :: which == 0 -> REPAIR_TAIL(DO) :: else -> REPAIR_HEAD(DO) fi; \
  CLEAR(DO, 0); CLEAR(DO, 1); ok = false

/* Take the lock, also of a dead process. A waiter sleeps for a bounded time only, then checks
   again. */
#define IS_DEAD(owner) ((owner) < N && dead[owner])
#define LOCK(which) \
  if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } \
     :: atomic { lock_word[which] == FREE -> lock_word[which] = me } \
     :: atomic { IS_DEAD(lock_word[which]) -> lock_word[which] = me; ok = true } \
  fi; \
  if :: ok -> REPAIR(STEP, which) :: else fi
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
  byte m; byte r; bool ok;
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
  byte m; byte r; bool ok;
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

/* The manager sweeps each death: it takes over the locks of the dead process, and wakes all waiters, since
   one that was woken may have been killed before it could act. */
proctype manager() {
  byte p; byte r; byte which; bool ok;
restart:
  atomic { p = 0; which = 0; ok = false; r = 0;   /* a lock of the manager before is a dead process's */
           if :: lock_word[0] == MANAGER -> ok = true :: else fi };
  if :: ok -> REPAIR(MSTEP, 0); MSTEP(lock_word[0] = FREE) :: else fi;
  d_step { if :: lock_word[1] == MANAGER -> ok = true :: else fi };
  if :: ok -> REPAIR(MSTEP, 1); MSTEP(lock_word[1] = FREE) :: else fi;
end:
  do
  :: atomic { dead[0] && !swept[0] -> p = 0 }; goto sweep
  :: atomic { N > 1 && dead[1] && !swept[1] -> p = 1 }; goto sweep
  :: atomic { N > 2 && dead[2 % N] && !swept[2 % N] -> p = 2 }; goto sweep
  :: atomic { N > 3 && dead[3 % N] && !swept[3 % N] -> p = 3 }; goto sweep
sweep:
     which = 0;
     do
     :: which < 2 ->
        MSTEP(ok = lock_word[which] == p; if :: ok -> lock_word[which] = MANAGER :: else fi);
        if :: ok -> REPAIR(MSTEP, which); MSTEP(lock_word[which] = FREE) :: else fi;
        which++
     :: else -> break
     od;
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
