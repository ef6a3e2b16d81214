/* Waiting for a queue by a descriptor: docs/design/queue.md, "Descriptors".
 *
 * Producers put messages; a watcher sleeps until its descriptor is readable, takes what is there, and settles.
 * Defines: PRODUCERS, MESSAGES (of each), DEATHS, MANAGER_DEATHS. The other words are mutations.
 */
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif
#define FREE 255
#define WATCHER 254

byte lock = FREE;           /* its owner */
byte count;                 /* unread messages */
bool armed;
byte changes;               /* how often the flag was disarmed */

chan notices = [8] of { bit };
bool registered;            /* the manager has the watcher's socket */
bool hung_up;               /* the watcher's socket has no peer */
byte wakeups;               /* unread, in the socket */
bool pending[PRODUCERS];    /* a notice that another thread of the producer will send */
bool dead[PRODUCERS];
bool unswept[PRODUCERS];
byte deaths;
byte manager_deaths;
bool disturbed;             /* a process was killed, or a notice was late */

#define READABLE (wakeups > 0 || hung_up)

inline acquire(who) { atomic { lock == FREE -> lock = who } }
inline release() { lock = FREE }

/* Sends a notice, or leaves it to the thread that uses the connection; fails if its manager was killed. */
inline tell(me) {
  if
  :: notices!1; told = true
  :: pending[me] = true; disturbed = true; told = true
  :: manager_deaths > 0 -> pending[me] = true; told = false  /* sent when it has connected again */
  fi
}

inline die(me) {
  if
  :: deaths < DEATHS -> atomic { deaths++; disturbed = true; dead[me] = true; unswept[me] = true; goto killed }
  :: true
  fi
}

proctype Producer(byte me) {
  byte left = MESSAGES;
  bool told;
  do
  :: left == 0 -> break
  :: left > 0 ->
     left--;
     acquire(me);
     die(me);
     count++;
     die(me);
#ifdef TELL_AFTER_UNLOCK
     release();
#endif
     if
     :: armed -> tell(me); die(me); if :: told -> d_step { armed = false; changes++ } :: else fi
     :: else
     fi;
     die(me);
#ifndef TELL_AFTER_UNLOCK
     release();
#endif
     die(me)
  od;
killed:
  skip
}

/* The other thread of a producer, which uses its connection. */
proctype Connection(byte me) {
end:
  do
  :: atomic { pending[me] && !dead[me] -> pending[me] = false; notices!1 }
  od
}

proctype Manager() {
  byte i;
end:
  do
  :: atomic { notices?1 -> if :: registered && wakeups < 3 -> wakeups++ :: else fi }
  :: atomic { manager_deaths < MANAGER_DEATHS ->
       manager_deaths++; disturbed = true;
       do :: len(notices) > 0 -> notices?1 :: len(notices) == 0 -> break od;
       if :: registered -> registered = false; hung_up = true :: else fi
     }
  :: atomic { (unswept[0]
#if PRODUCERS > 1
       || unswept[1]
#endif
     ) ->
       i = (unswept[0] -> 0 : 1);
       unswept[i] = false;
       pending[i] = false;
       if :: lock == i -> lock = FREE :: else fi;
#ifndef NO_WAKE_IN_SWEEP
       if :: registered && wakeups < 3 -> wakeups++ :: else fi
#endif
     }
  od
}

proctype Watcher() {
  byte seen;
  byte turn;
  bool must_tell = true;
  bool told;
  registered = true;
  goto settle;
wait:
  if
  :: goto end_readable
  :: goto end_get
  fi;
end_get:  /* a get that does not wait for the descriptor */
  count > 0;
  goto take;
end_readable:
  atomic { READABLE -> assert(disturbed || count > 0 || lock != FREE) };  /* not woken in vain */
take:
  if
  :: atomic { count > 0 -> count-- }; if :: count > 0 -> goto wait :: else -> goto settle fi
  :: count == 0 -> goto settle
  fi;
settle:
  turn = 0;
again:
#ifdef ARM_WITHOUT_LOCK
  if :: count > 0 -> goto wait :: else fi;
#else
  if
  :: atomic { lock == FREE -> lock = WATCHER }
  :: lock != FREE ->  /* its owner is stopped */
     disturbed = true;
#ifndef NO_TELL_WHEN_STOPPED
     if :: must_tell -> notices!1 :: else fi;
#endif
     goto wait
  fi;
#endif
  if
#ifndef ARM_WITHOUT_LOCK
  :: count > 0 ->
     if
     :: armed || must_tell ->
        notices!1; must_tell = false; d_step { armed = false; changes++ }
     :: else
     fi;
     release();
     goto wait
#endif
  :: else ->
     if
#ifndef NO_AWAIT
     :: seen != changes && turn < 2 ->
        seen = changes;
        release();
        turn++;
        if
        :: READABLE
        :: disturbed  /* the wait is bounded */
        fi;
        wakeups = 0;
#ifndef FORGET_THE_READ_WAKEUP
        must_tell = true;
#endif
        if :: hung_up -> goto connect :: else -> goto again fi
#endif
     :: else ->
        seen = changes;
        armed = true;
        must_tell = false;
        wakeups = 0;
        release();
        if :: hung_up -> goto connect :: else -> goto wait fi
     fi
  fi;
connect:
  atomic { hung_up = false; wakeups = 0; registered = true;
#ifndef NO_TELL_WHEN_NEW
    must_tell = true
#endif
  };
  goto again
}

/* When nothing moves any more, no message is unread. */
active proctype Monitor() {
  timeout ->
  assert(count == 0)
}

init {
  byte i;
  atomic {
    run Manager();
    run Watcher();
    i = 0;
    do
    :: i < PRODUCERS -> run Producer(i); run Connection(i); i++
    :: else -> break
    od
  }
}
