/* Draining: csrc/arena/reclaim.cpp, csrc/manager/drain.cpp. A block contains the name of a ticket: it is a queue,
   a ring or a message. When no process uses the block, it is not free yet: the manager first cancels the ticket.

   Process 0 owns the block's arena. It and process 1 hold the block; process 1 may read the message and consume
   the ticket. Process 2 has a handle without a ticket, which may be stale. Any of them and the manager may be
   killed before any step that writes. When the block is free, the owner uses it again, with another ticket; a
   third generation contains nothing. Mutations are set by -D; tests/model/check.py has the configurations. */
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 1
#endif

#define N 3
#define GENERATIONS 2 /* that contain a ticket */
#define bit(p) (1 << (p))
mtype = { LIVE, DRAINING, IDLE };

/* Shared memory */
mtype state = LIVE; byte generation; byte epoch; /* the word of the block */
byte holders;
bool contents;           /* the block contains a name */
byte record;             /* the ticket that is named */
bool ticket[GENERATIONS];
bool block[GENERATIONS]; /* the block that the ticket keeps is allocated */

bool requested;          /* a process let the manager know */
bool dead[N];

/* Ghosts */
bool swept[N]; byte deaths; byte manager_deaths;
bool uses[N];            /* the process uses the bytes of the block */
bool reading;            /* so does the manager */

#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; uses[me] = false; goto killed } \
                   :: d_step { x } fi
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; reading = false; goto restart } \
                    :: d_step { x } fi

#ifdef FREE_WITHOUT_DRAINING
#define SWAP state = IDLE; generation++; epoch = 0
#else
#define SWAP if :: drains -> state = DRAINING :: else -> state = IDLE; generation++ fi; epoch = 0
#endif
/* Frees the block, or lets it drain, if it has no holder. No ticket for the block itself is modelled: see
   block.pml. */
#define TRY_FREE(DO) \
  DO(ok = state == LIVE; g = generation; e = epoch); \
  if :: ok -> DO(ok = holders == 0) :: else fi; \
  if :: ok -> DO(drains = contents) :: else fi; \
  if :: ok -> \
        DO(ok = state == LIVE && generation == g && epoch == e; \
           if :: ok -> assert(!uses[0] && !uses[1] && !uses[2]); SWAP :: else fi); \
        ok = ok && drains \
     :: else fi

#define RELEASE \
  uses[me] = false; \
  STEP(holders = holders & ~bit(me)); \
  TRY_FREE(STEP); \
  if :: ok -> STEP(requested = true) :: else fi; \
  ok = false; drains = false; g = 0; e = 0

#ifdef REUSE_DRAINING
#define MAY_REUSE (state != LIVE)
#else
#define MAY_REUSE (state == IDLE)
#endif

proctype owner() {
  byte me = 0; byte g; byte e; bool ok; bool drains;
  RELEASE;
  do
  :: atomic { generation <= GENERATIONS && MAY_REUSE -> assert(!reading) };
     STEP(contents = false);
     STEP(holders = holders | bit(me));
     STEP(state = LIVE; uses[me] = true);
     if
     :: generation < GENERATIONS ->
        STEP(record = generation);
        STEP(contents = true);
        STEP(ticket[generation] = true; block[generation] = true)
     :: else
     fi;
     RELEASE
  :: atomic { state == IDLE && generation > GENERATIONS -> break }
  od;
killed:
end:
  skip
}

proctype reader() {
  byte me = 1; byte g; byte e; bool ok; bool drains;
  if
  :: STEP(ticket[0] = false; block[0] = false);
     STEP(contents = false)
  :: true
  fi;
  RELEASE;
killed:
  skip
}

proctype stale() {
  byte me = 2; byte g; byte e; bool ok; bool drains;
  STEP(holders = holders | bit(me));
#ifdef HOLD_DRAINING
  STEP(ok = state != IDLE && generation == 0; if :: ok -> epoch++; uses[me] = true :: else fi);
#else
  STEP(ok = state == LIVE && generation == 0; if :: ok -> epoch++; uses[me] = true :: else fi);
#endif
  RELEASE;
killed:
  skip
}

/* A block that is found draining is drained, whoever let it drain, and also with a holder bit: such a process
   tries a stale handle. */
#ifdef SKIP_HELD
#define DRAINS (state == DRAINING && holders == 0)
#else
#define DRAINS (state == DRAINING)
#endif
#ifdef FREE_BEFORE_CANCEL
#define DRAIN MSTEP(r = record; d = contents; state = IDLE; generation++); \
              if :: d -> MSTEP(ticket[r] = false); MSTEP(block[r] = false) :: else fi
#else
#define DRAIN MSTEP(r = record; d = contents; reading = true); \
              if :: d -> MSTEP(ticket[r] = false); MSTEP(block[r] = false) :: else fi; \
              MSTEP(assert(!uses[0] && !uses[1] && !uses[2]); state = IDLE; generation++; reading = false)
#endif

proctype manager() {
  byte p; byte g; byte e; byte r; bool ok; bool drains; bool d;
  goto serve;
restart:
  atomic { p = 0; g = 0; e = 0; r = 0; ok = false; drains = false; d = false; requested = false };
  goto sweep;   /* a new manager */
end:
serve:
  do
  :: atomic { requested -> requested = false };
     MSTEP(ok = state == DRAINING);
     if :: ok -> DRAIN :: else fi; ok = false
  :: atomic { (dead[0] && !swept[0]) || (dead[1] && !swept[1]) || (dead[2] && !swept[2]) -> skip };
sweep:
     MSTEP(p = (dead[0] -> 1 : 0) + (dead[1] -> 2 : 0) + (dead[2] -> 4 : 0));
     MSTEP(holders = holders & ~p);
     MSTEP(ok = DRAINS);
     if :: !ok -> TRY_FREE(MSTEP) :: else fi;
     if :: ok -> DRAIN :: else fi;
     MSTEP(swept[0] = swept[0] || p & 1; swept[1] = swept[1] || p & 2; swept[2] = swept[2] || p & 4);
     /* The sweep goes over all blocks: it also frees one whose last ticket a dead process had cancelled. */
     MSTEP(block[0] = block[0] && ticket[0]; block[1] = block[1] && ticket[1]);
     p = 0; g = 0; e = 0; r = 0; ok = false; drains = false; d = false
  od
}

proctype judge() {
  timeout -> assert(state == IDLE && !ticket[0] && !ticket[1] && !block[0] && !block[1] && holders == 0)
}

init {
  atomic {
    holders = bit(0) | bit(1); uses[0] = true; uses[1] = true;
    contents = true; ticket[0] = true; block[0] = true;
    run owner(); run reader(); run stale(); run manager(); run judge()
  }
}
