/* The protocol of a queue that delivers the messages of killed consumers again: csrc/queue/kept.hpp,
   csrc/channel/queue_keep.cpp. Producers and locks are queue.pml's subject.

   A consumer keeps a message in a record before it counts the message as taken. The record names its owner. The
   owner completes the message when it asks for the next one: it cancels the ticket, then frees the record. After a
   death, the manager returns the messages of the dead owner; a consumer takes returned ones first. A consumer of a
   queue that is shut down ends if no message is left, returned, or owned by another process. A consumer may also
   return its message, as at the end of a thread. FOLLOWS: the receiver of message 0 puts the last message before it
   completes the first. JOIN: a process finds at any time whether all messages are completed.

   Any process may be killed before any step. Every access to shared memory is one step, and sequentially
   consistent. -D NO_TICKETS: the messages carry no block. */
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif
#ifndef RETURNS
#define RETURNS 0
#endif
#ifdef FOLLOWS
#define FIRST (MESSAGES - 1)
#else
#define FIRST MESSAGES
#endif

#define FREE 255
#define RETURNED 254
#define NONE 255
#define bit(p) (1 << (p))

/* Shared memory */
byte head;                      /* count of messages that were taken; message n is in entry n */
byte tail = FIRST;              /* count of messages that were put */
byte lock_word = FREE;          /* owner of the lock of the head */
byte owner[RECORDS];            /* of a record: a consumer, FREE or RETURNED */
byte position[RECORDS];         /* the message in a record */
bool named[MESSAGES];           /* the entry of the message names its ticket */
bool ticket[MESSAGES];          /* live */
bool stopped;                   /* the queue is shut down */
bool waiting; byte fresh;       /* as in queue.pml */

byte asleep; bool dead[CONSUMERS];                      /* the kernel */

bool swept[CONSUMERS]; bool ended[CONSUMERS];           /* ghosts */
byte deaths; byte manager_deaths; byte returns;
byte receiver[MESSAGES]; bool completed[MESSAGES];

#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed } :: d_step { x } fi
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; goto restart } :: d_step { x } fi
#define WAKE(DO) DO(waiting = false; fresh = 0); DO(asleep = 0)

#ifdef NO_TICKETS
#define CANCEL(m)
#define IS_KEPT(m) true
#else
#define CANCEL(m) STEP(ticket[m] = false; completed[m] = true)
#ifdef RETURN_COMPLETED
#define IS_KEPT(m) true
#else
#define IS_KEPT(m) ticket[m]
#endif
#endif
#ifdef FREE_BEFORE_CANCEL
#define COMPLETE(k) STEP(m = position[k]; owner[k] = FREE); CANCEL(m)
#else
#define COMPLETE(k) CANCEL(position[k]); STEP(completed[position[k]] = true; owner[k] = FREE)
#endif
#ifdef NO_WAKE_WHEN_COMPLETE
#define TELL
#else
#define TELL STEP(ok = stopped); if :: ok -> WAKE(STEP) :: else fi
#endif

/* A scan reads one record after the other. */
inline find_owned() {
  k = 0; owned = false;
  do
  :: k < RECORDS -> STEP(owned = owned || (owner[k] != FREE && owner[k] != RETURNED)); k++
  :: else -> break
  od
}
inline find(wanted) { /* the record of the first message */
  k = 0; found = NONE;
  do
  :: k < RECORDS -> STEP(if :: owner[k] == wanted && (found == NONE || position[k] < position[found]) -> found = k :: else fi); k++
  :: else -> break
  od
}
#ifdef OWNED_AFTER_RETURNED
#define LOOK find(RETURNED); find_owned()
#else
#define LOOK find_owned(); find(RETURNED)
#endif
#ifdef IGNORE_OWNED
#define NONE_OWNED true
#else
#define NONE_OWNED !owned
#endif

#ifdef NAME_AFTER_COUNT
#define CLEAR_AND_COUNT STEP(head++); STEP(named[m] = false)
#else
#define CLEAR_AND_COUNT STEP(named[m] = false); STEP(head++)
#endif
#ifdef COUNT_BEFORE_OWNER
#define KEEP STEP(position[found] = m); CLEAR_AND_COUNT; STEP(owner[found] = me)
#else
#define KEEP STEP(position[found] = m); STEP(owner[found] = me); CLEAR_AND_COUNT
#endif

proctype consumer(byte me) {
  byte k; byte m; byte found; bool owned; bool stage; bool ok;
again:
  k = 0;
  do
  :: k < RECORDS ->
     STEP(ok = owner[k] == me);
     if :: ok -> COMPLETE(k); TELL :: else fi;
     k++
  :: else -> break
  od;
  ok = false;
try:
  if
  :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto killed }
  :: atomic { lock_word == FREE -> lock_word = me }
  fi;
  STEP(stage = stopped);
  LOOK;
  if
  :: found != NONE ->
     STEP(assert(owner[found] == RETURNED); owner[found] = me; m = position[found]);
  :: else ->
     m = head; /* only a process with the lock writes it */
     if
     :: m < tail ->
        find(FREE);
        if :: found != NONE -> KEEP :: else -> m = NONE fi
     :: else -> m = NONE
     fi
  fi;
  STEP(lock_word = FREE);
  if
  :: m != NONE ->
     STEP(assert(!completed[m] && (receiver[m] == NONE || dead[receiver[m]])); receiver[m] = me);
#ifdef FOLLOWS
     STEP(ok = m == 0 && tail < MESSAGES);
     if :: ok -> STEP(tail++); WAKE(STEP) :: else fi;
#endif
     if
     :: atomic { returns < RETURNS -> returns++ }; STEP(receiver[m] = NONE; owner[found] = RETURNED); WAKE(STEP)
     :: true
     fi;
     m = 0; found = 0;
     goto again
  :: m == NONE && head == tail && stage && NONE_OWNED -> ended[me] = true; goto killed
  :: else ->
     m = 0;
     STEP(waiting = true; fresh = fresh | bit(me));
     STEP(stage = stopped);
     find_owned(); find(RETURNED);
     ok = found != NONE || (stage && NONE_OWNED);
     find(FREE);
     STEP(ok = ok || (head < tail && found != NONE));
     if
     :: !ok ->
        STEP(if :: !(fresh & bit(me)) :: else -> asleep = asleep | bit(me) fi; fresh = fresh & ~bit(me));
end_asleep:
        if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; asleep = asleep & ~bit(me); goto killed }
           :: !(asleep & bit(me))
        fi
     :: else -> fresh = fresh & ~bit(me)
     fi;
     ok = false; k = 0; found = 0; owned = false; stage = false;
     goto try
  fi;
killed:
  skip
}

/* Shuts the queue down when all messages were put. */
proctype closer() { end: tail == MESSAGES; d_step { stopped = true }; d_step { waiting = false; fresh = 0 }; asleep = 0 }

/* A producer was killed when the entry of a message that was taken was the next to be used. */
proctype reuse() {
  byte m = 0;
end:
  do
  :: m < MESSAGES && m < head -> atomic { if :: named[m] -> ticket[m] = false :: else fi; m++ }
  od
}

#ifdef NO_HEAD_REPAIR
#define REPAIR_HEAD
#else
#define REPAIR_HEAD \
  k = 0; ok = false; \
  do \
  :: k < RECORDS -> MSTEP(ok = ok || (owner[k] != FREE && position[k] == head)); k++ \
  :: else -> break \
  od; \
  if :: ok && head < tail -> MSTEP(named[head] = false); MSTEP(head++) :: else fi
#endif

proctype manager() {
  byte p; byte k; bool ok;
restart:
  atomic { p = 0; k = 0; ok = false };
end:
  do
  :: atomic { dead[0] && !swept[0] -> p = 0 }; goto sweep
  :: atomic { CONSUMERS > 1 && dead[1 % CONSUMERS] && !swept[1 % CONSUMERS] -> p = 1 }; goto sweep
  :: atomic { CONSUMERS > 2 && dead[2 % CONSUMERS] && !swept[2 % CONSUMERS] -> p = 2 }; goto sweep
sweep:
#ifdef SWEPT_BEFORE_RETURN
     MSTEP(swept[p] = true);
#endif
     MSTEP(ok = lock_word == p);
     if :: ok -> REPAIR_HEAD; MSTEP(lock_word = FREE) :: else fi;
     k = 0;
     do
     :: k < RECORDS ->
        MSTEP(ok = owner[k] == p);
        if :: ok -> MSTEP(if :: IS_KEPT(position[k]) -> owner[k] = RETURNED :: else -> owner[k] = FREE fi) :: else fi;
        k++
     :: else -> break
     od;
     k = 0; ok = false;
#ifndef NO_WAKE_IN_SWEEP
     WAKE(MSTEP);
#endif
     MSTEP(swept[p] = true)
  od
}

#ifdef JOIN
/* Queue::all_done, once, at any time. */
proctype joiner() {
  byte count; byte k; bool left;
  d_step { count = tail };
#ifdef RECORDS_BEFORE_HEAD
  left = false;
#else
  d_step { left = head < count };
#endif
  do
  :: k < RECORDS -> d_step { left = left || owner[k] != FREE }; k++
  :: else -> break
  od;
  k = 0;
#ifdef RECORDS_BEFORE_HEAD
  d_step { left = left || head < count };
#endif
  d_step {
    if
#ifdef COUNT_ONCE
    :: !left ->
#else
    :: !left && tail == count ->
#endif
       do :: k < tail -> assert(completed[k]); k++ :: else -> break od
    :: else
    fi
  }
}
#endif

/* Judges the state in which no process can continue. */
proctype judge() {
  byte p; byte m; byte k; bool alive; bool has_name;
  atomic {
    timeout ->
    do :: p < CONSUMERS -> assert(dead[p] || ended[p]); alive = alive || !dead[p]; p++ :: else -> break od;
    do
    :: m < MESSAGES ->
       has_name = m >= head; k = 0;
       do
       :: k < RECORDS -> has_name = has_name || (owner[k] != FREE && position[k] == m); k++
       :: else -> break
       od;
       assert(has_name || completed[m]);      /* none is lost */
       assert(completed[m] || !alive);        /* each is delivered while a consumer lives */
#ifndef NO_TICKETS
       assert(has_name || !ticket[m]);        /* nothing stays allocated */
       assert(ticket[m] || completed[m]);     /* nothing is freed too early */
#endif
       m++
    :: else -> break
    od
  }
}

init {
  byte i;
  atomic {
    do :: i < RECORDS -> owner[i] = FREE; i++ :: else -> break od;
    i = 0;
    do :: i < MESSAGES -> receiver[i] = NONE; named[i] = true; ticket[i] = true; i++ :: else -> break od;
    i = 0;
    do :: i < CONSUMERS -> run consumer(i); i++ :: else -> break od;
    run manager(); run closer(); run reuse(); run judge();
#ifdef JOIN
    run joiner()
#endif
  }
}
