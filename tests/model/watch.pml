/* Waiting for a queue by a descriptor: docs/design/queues.md, "Watching descriptors".
 *
 * Producers put messages; a watcher sleeps until its descriptor is readable, takes what is there, and settles;
 * another consumer, which does not watch, takes messages and settles, too. A pipe is its unread bytes; its number
 * is in the queue. Defines: PRODUCERS, MESSAGES (of each), OTHERS (messages that the other consumer may take),
 * DEATHS, MANAGER_DEATHS, SHUTDOWN. The other words are mutations.
 */
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef OTHERS
#define OTHERS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif
#define FREE 255
#define WATCHER 254
#define OTHER 253

byte lock = FREE;           /* its owner */
byte count;                 /* unread messages */
bool stopped;               /* the queue is shut down, which needs no lock */
bool armed;
byte number;                /* of the ready pipe; 0: the queue was never watched */

byte bytes[4];              /* unread, by the number of the pipe */
byte kept;                  /* the pipe of the manager, or 0 */
byte made;                  /* pipes */
bool hung_up;               /* the watcher's socket has no peer */
byte mine;                  /* the watcher's pipe */
bool settling;              /* the other consumer has taken a message */
bool done;                  /* the watcher has seen the shutdown */

chan notices = [4] of { bit };
bool dead[PRODUCERS];
bool unswept[PRODUCERS];
byte deaths;
byte manager_deaths;
bool disturbed;             /* a process was killed, or asked the manager to raise the pipe */

#define HAPPENED (count > 0 || stopped)
#ifdef NO_HANG_UP
#define READABLE (bytes[mine] > 0)
#else
#define READABLE (bytes[mine] > 0 || hung_up)
#endif

inline acquire(who) { atomic { lock == FREE -> lock = who } }
inline release() { lock = FREE }
inline raise(pipe) { if :: bytes[pipe] < 3 -> bytes[pipe]++ :: else fi }
inline ask_manager() { atomic { disturbed = true; if :: nfull(notices) -> notices!1 :: full(notices) fi } }

inline die(me) {
  if
  :: deaths < DEATHS -> atomic { deaths++; disturbed = true; dead[me] = true; unswept[me] = true; goto killed }
  :: true
  fi
}

/* With the lock, before and after the event. */
inline disarm(me) {
  if
  :: number != 0 && armed -> armed = false; tells = true; die(me)
  :: else -> tells = false
  fi
}
inline tell(me, have) {
  if
  :: tells && have == number -> raise(have); die(me)
  :: tells && have != number -> ask_manager()
  :: else
  fi
}

/* Without the lock: the pipe is the one in the queue, or none. */
inline fetch(have, asked) {
  atomic { asked = number; if :: kept == number -> have = number :: else -> have = 0 fi }
}

proctype Producer(byte me) {
  byte left = MESSAGES;
  byte have;
  byte asked;
  bool tells;
  do
  :: left == 0 -> break
  :: left > 0 ->
     acquire(me);
     if
     :: number != 0 && armed && asked != number -> release(); fetch(have, asked)
     :: else ->
        left--;
        die(me);
#ifndef DISARM_AFTERWARDS
        disarm(me);
#endif
        count++;
        die(me);
#ifdef DISARM_AFTERWARDS
        disarm(me);
#endif
        tell(me, have);
        release()
     fi
  od;
#ifdef SHUTDOWN
  stopped = true;
  if :: number != 0 -> ask_manager() :: else fi;
#endif
killed:
  skip
}

proctype Manager() {
  byte i;
end:
  do
  :: atomic { notices?1 -> if :: kept != 0 && bytes[kept] == 0 -> raise(kept) :: else fi }
  :: atomic { manager_deaths < MANAGER_DEATHS && kept != 0 ->
       manager_deaths++; disturbed = true; kept = 0; hung_up = true;
       do :: nempty(notices) -> notices?1 :: empty(notices) -> break od
     }
  :: atomic { (unswept[0]
#if PRODUCERS > 1
       || unswept[1]
#endif
     ) ->
       i = (unswept[0] -> 0 : 1);
       unswept[i] = false;
       if :: lock == i -> lock = FREE :: else fi;
#ifndef NO_WAKE_IN_SWEEP
       if :: (!armed || HAPPENED) && kept != 0 && bytes[kept] == 0 -> raise(kept) :: else fi
#endif
     }
  od
}

/* Registers the watcher's socket. */
inline watch() {
  atomic {
    if
    :: kept == 0 || kept != number -> made++; kept = made; raise(kept); number = kept
    :: else
    fi;
    hung_up = false;
    mine = kept
  }
}

inline settle(who, have) {
#ifndef ARM_WITHOUT_LOCK
  acquire(who);
#endif
  if
  :: have != number || have == 0
  :: else ->
     if
     :: !HAPPENED ->
        bytes[have] = 0;
        armed = true
     :: else
     fi;
#ifndef LOOK_ONCE
     if
     :: HAPPENED && (armed || bytes[have] == 0) -> armed = false; raise(have)
     :: else
     fi
#endif
  fi;
#ifndef ARM_WITHOUT_LOCK
  release()
#endif
}

proctype Watcher() {
  watch();
  settle(WATCHER, mine);
end:
  do
  :: atomic { READABLE -> assert(disturbed || HAPPENED || settling) };  /* not in vain */
     if
     :: atomic { count > 0 -> count-- }
     :: count == 0 && stopped -> done = true; break
     :: count == 0 && !stopped
     fi;
     if
     :: hung_up || mine != number -> watch()
     :: else
     fi;
     if :: !HAPPENED || hung_up -> settle(WATCHER, mine) :: else fi
  od
}

/* A consumer that does not watch. */
proctype Other() {
  byte left = OTHERS;
  byte have;
  byte asked;
end:
  do
  :: left == 0 -> break
  :: atomic { left > 0 && count > 0 -> count--; left--; settling = true };
#ifndef OTHERS_DO_NOT_SETTLE
     if
     :: number != 0 && !HAPPENED && !armed ->
        if :: asked != number -> fetch(have, asked) :: else fi;
        settle(OTHER, have)
     :: else
     fi;
#endif
     settling = false
  od
}

/* When nothing moves any more, no message is unread, and the watcher knows of the shutdown. */
active proctype Monitor() {
  timeout ->
  assert(count == 0);
  assert(!stopped || done)
}

init {
  byte i;
  atomic {
    run Manager();
    run Watcher();
    run Other();
    i = 0;
    do
    :: i < PRODUCERS -> run Producer(i); i++
    :: else -> break
    od
  }
}
