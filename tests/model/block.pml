/* The life of blocks in one arena, as csrc/arena and csrc/manager really do it: every access to shared
   memory is one step, and before each a process may be killed. Sequentially consistent, as the code's
   atomics are (docs/design/blocks.md, "Memory orders"). docs/design/verification.md lists what is covered.

   The names in comments are those of the functions that a step stands for. Sizes and mutations are set
   by -D; tests/model/check.py has the configurations. */
#ifndef N
#define N 3        /* processes; 0 owns the arena */
#endif
#ifndef B
#define B 2        /* blocks */
#endif
#ifndef T
#define T 2        /* tickets that can be issued */
#endif
#ifndef OPS
#define OPS 2      /* operations of each process */
#endif
#ifndef ALLOCS
#define ALLOCS 2   /* allocations of the owner */
#endif
#ifndef DEATHS
#define DEATHS 2   /* processes that may be killed */
#endif
#ifndef MANAGER_DEATHS
#define MANAGER_DEATHS 0
#endif
#ifndef COLLECTS
#define COLLECTS 0 /* tickets that gc may spend while the others run */
#endif
#ifndef FORK
#define FORK 0     /* 1: process N-1 is not there from the start; process 1 forks it */
#endif
#ifndef UNSEND
#define UNSEND 0   /* 1: a send may fail after its ticket was published */
#endif
#ifndef PLANES
#define PLANES 1   /* 2: the last process has its bits in a plane, that is a word, of its own, which others read
                      when it is announced; 3: in one before */
#endif
#ifndef READS
#define READS 1    /* how often the bytes of a message may be loaded */
#endif
#ifndef START_HELD
#define START_HELD 0 /* processes that hold block 0 at the start, as bits */
#endif

/* Mutations: each makes the protocol wrong and must be found. */
#define bit(p) (1 << (p))
#define LAST bit(N - 1)
#define NONE 255

typedef Block { byte generation; byte epoch; bool live; byte holders; byte senders };
typedef Ticket { bool issued; bool live; byte block; byte generation; byte sender; bool sent; byte message; byte reads };
Block block[B];       /* BlockRecord::word, holder planes, sender planes */
Ticket ticket[T];     /* TicketGroup: a bit each; block and generation are constant while it is live */
byte freed_low;       /* FreedMap: a bit for each block, */
bool freed_top;       /* and one over all */
byte deaths_counted;  /* SessionHeader::deaths */
bool orphaned;        /* ArenaHeader::orphaned */
bool plane = (PLANES != 2 || (START_HELD & LAST) != 0); /* ArenaHeader::planes: the bit of the last process's plane */

byte given;           /* the owner's bookkeeping: Allocator::ranges_, private to it */
byte use[N];          /* ghost: the blocks whose bytes a process has in use */
bool dead[N]; bool vacated[N]; bool done[N];
bool born = (FORK == 0);
byte deaths; byte allocations; byte manager_deaths; byte collects;

/* One step of process `me`, or its death. */
#define STEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; use[me] = 0; goto killed } :: d_step { x } fi
/* A step that only reads: to be killed before it is the same, for everybody else, as before the next. */
#define READ(x) d_step { x }
/* One step of the manager, or its death; then another one begins. */
#define MSTEP(x) if :: atomic { manager_deaths < MANAGER_DEATHS -> manager_deaths++; goto adopt } :: d_step { x } fi

/* The promise: nobody uses the block, and nothing that was sent refers to it. */
inline check_free(b) {
  assert(!(use[0] & bit(b)) && !(use[1] & bit(b)) && !(use[N - 1] & bit(b)));
  k = 0; do :: k < T -> assert(!(ticket[k].live && ticket[k].sent && ticket[k].block == b && ticket[k].generation == block[b].generation)); k++ :: else -> break od; k = 0
}

/* try_free (csrc/arena/reclaim.cpp). `won`: this process freed it. */
#define TICKET_SEEN(b) (ticket[k].live && ticket[k].block == b && ticket[k].generation == s_generation && (s_senders & bit(ticket[k].sender)))
#if PLANES == 2
#define READ_PLANES READ(seen = plane);
#define SEEN(bits, all) (all -> (bits) : (bits) & ~LAST)
#else
#define READ_PLANES
#define SEEN(bits, all) (bits)
#endif
#ifdef PLANES_ONCE
#define READ_PLANES_AGAIN
#else
#define READ_PLANES_AGAIN READ_PLANES
#endif
#define LOOK_AT_TICKETS(b) \
  if :: !busy -> READ_PLANES READ(s_senders = SEEN(block[b].senders, seen); k = 0); \
       do :: k < T && !busy -> READ(busy = TICKET_SEEN(b); k++) :: else -> break od; k = 0; s_senders = 0 \
     :: else fi
#define LOOK_AT_HOLDERS(b, READ_THEM) \
  if :: !busy && PLANES == 1 -> READ(busy = block[b].holders != 0) \
     :: !busy && PLANES == 2 -> READ_THEM READ(busy = (block[b].holders & ~LAST) != 0); \
        if :: !busy && seen -> READ(busy = (block[b].holders & LAST) != 0) :: else fi \
     :: !busy && PLANES == 3 -> READ(busy = (block[b].holders & LAST) != 0); \
        if :: !busy -> READ(busy = (block[b].holders & ~LAST) != 0) :: else fi \
     :: else fi
#ifdef HOLDERS_ONCE
#define LOOK(b) LOOK_AT_HOLDERS(b, READ_PLANES); LOOK_AT_TICKETS(b)
#else
#define LOOK(b) LOOK_AT_HOLDERS(b, READ_PLANES); LOOK_AT_TICKETS(b); LOOK_AT_HOLDERS(b, READ_PLANES_AGAIN)
#endif
#ifdef NO_EPOCH
#define SAME_EPOCH 1
#else
#define SAME_EPOCH (block[b].epoch == s_epoch)
#endif
#ifdef SAME_GENERATION
#define NEXT_GENERATION 0
#else
#define NEXT_GENERATION 1
#endif
#define TRY_FREE(ANY) \
  won = false; \
  READ(busy = !block[b].live; s_generation = block[b].generation; s_epoch = block[b].epoch); \
  LOOK(b); \
  if :: !busy -> ANY( \
         if :: block[b].live && block[b].generation == s_generation && SAME_EPOCH -> \
               check_free(b); block[b].live = false; block[b].epoch = 0; won = true; \
               block[b].generation = block[b].generation + NEXT_GENERATION \
            :: else fi) \
     :: else fi; \
  s_generation = 0; s_epoch = 0; busy = false; seen = false

/* FreedMap::mark, two of its three levels. */
#define MARK(ANY) ANY(freed_low = freed_low | bit(b)); ANY(freed_top = true)

/* Allocator::reclaim: the books believe the word, not the bit. */
#define RECLAIM(x) if :: (given & bit(x)) && !block[x].live -> given = given & ~bit(x) :: else fi

/* Arena::try_free_block, after a release or a failed hold. */
#define FREE_OR_LEAVE \
  TRY_FREE(STEP); \
  if :: won && me == 0 -> READ(RECLAIM(b)) :: won && me != 0 -> MARK(STEP) :: else fi; won = false

/* Arena::take_freed and compare_with_table, behind the arena's lock. */
inline take_freed() {
  if :: freed_top -> STEP(freed_top = false); STEP(low = freed_low; freed_low = 0);
       if :: low & 1 -> READ(RECLAIM(0)) :: else fi;
       if :: B > 1 && (low & 2) -> READ(RECLAIM(B - 1)) :: else fi; low = 0
     :: else fi;
  if :: deaths_counted != deaths_seen -> READ(deaths_seen = deaths_counted); READ(RECLAIM(0)); READ(RECLAIM(B - 1)) :: else fi
}

/* Arena::allocate and activate. `S` is cleared in the announced planes: nobody can send this generation yet. */
inline allocate() {
  take_freed();
  if :: !(given & 1) -> b = 0 :: B > 1 && !(given & 2) -> b = B - 1 :: else -> b = NONE fi;
  if :: b != NONE ->
       STEP(given = given | bit(b); allocations++; block[b].senders = block[b].senders - SEEN(block[b].senders, plane));
#ifdef LIVE_FIRST
       STEP(assert(!block[b].live); block[b].live = true; block[b].epoch = 0);
       STEP(block[b].holders = block[b].holders | bit(me); use[me] = use[me] | bit(b))
#else
       STEP(block[b].holders = block[b].holders | bit(me));
       STEP(assert(!block[b].live); block[b].live = true; block[b].epoch = 0; use[me] = use[me] | bit(b))
#endif
     :: else fi
}

/* Arena::send with TransitWriter::issue, then the message; or Arena::cancel_send if that cannot be written. */
inline send(b) {
  /* A ghost gives out the tickets, since each sender has its own table; then the sender's bit. */
  STEP(t = 0; do :: t < T && ticket[t].issued -> t++ :: else -> break od;
       if :: t < T -> ticket[t].issued = true; ticket[t].sender = me; ticket[t].block = b; block[b].senders = block[b].senders | bit(me) :: else fi);
  if :: t < T ->
       STEP(ticket[t].generation = block[b].generation; ticket[t].live = true);
       STEP(assert(block[b].live); block[b].epoch++; ticket[t].sent = true);
       if :: STEP(ticket[t].message = 1; ticket[t].sent = true)
          :: UNSEND -> STEP(ticket[t].live = false; ticket[t].sent = false); FREE_OR_LEAVE
       fi
     :: else fi; t = 0
}

/* Arena::release and unpin_and_try_free. */
inline release(b) {
  STEP(use[me] = use[me] & ~bit(b); block[b].holders = block[b].holders & ~bit(me));
  FREE_OR_LEAVE
}

/* Arena::hold, for a message that was read. */
#define CLAIM(then) STEP(held = ticket[t].live; if :: held -> ticket[t].live = false; then :: else fi)
inline receive() {
  b = ticket[t].block; s_generation = ticket[t].generation;
  if :: use[me] & bit(b) ->
       READ(held = block[b].live && block[b].generation == s_generation);
       if :: held -> CLAIM(skip) :: else -> s_generation = 0; FREE_OR_LEAVE fi
     :: else ->
#ifdef CLAIM_FIRST
       CLAIM(skip); STEP(block[b].holders = block[b].holders | bit(me); if :: held -> use[me] = use[me] | bit(b) :: else fi);
#else
       STEP(block[b].holders = block[b].holders | bit(me));
       CLAIM(use[me] = use[me] | bit(b));
#endif
       if :: !held -> STEP(held = block[b].live && block[b].generation == s_generation;
#ifdef HOLD_WITHOUT_EPOCH
                if :: held -> use[me] = use[me] | bit(b) :: else fi)
#else
                if :: held -> block[b].epoch++; use[me] = use[me] | bit(b) :: else fi)
#endif
          :: else fi;
       if :: !held -> STEP(block[b].holders = block[b].holders & ~bit(me)); s_generation = 0; FREE_OR_LEAVE
          :: else fi
  fi;
  s_generation = 0; held = false; t = 0
}

/* Session::prepare_child, Arena::hold_for_child: the child's bit, then the epoch. Who is killed on the
   way leaves a slot of which the manager hears that nobody lives in it. */
#define FSTEP(x) if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; dead[N - 1] = true; born = true; use[me] = 0; goto killed } :: d_step { x } fi
/* Segment::ensure_plane. */
#if PLANES == 2
#define ENSURE_PLANE FSTEP(plane = true);
#else
#define ENSURE_PLANE
#endif
#ifdef NO_FORK_EPOCH
#define CHILD_BUMP(x) skip
#else
#define CHILD_BUMP(x) FSTEP(block[x].epoch++)
#endif
inline fork() {
  ENSURE_PLANE
  if :: use[me] & 1 -> FSTEP(block[0].holders = block[0].holders | LAST); CHILD_BUMP(0) :: else fi;
  if :: B > 1 && (use[me] & 2) -> FSTEP(block[B - 1].holders = block[B - 1].holders | LAST); CHILD_BUMP(B - 1) :: else fi;
  FSTEP(use[N - 1] = use[me]; born = true)
}

proctype Process(byte me) {
  byte n; byte b; byte t; byte k; byte s_generation; byte s_epoch; byte s_senders; bool busy; bool won; bool held; bool seen;
  byte low; byte deaths_seen;
  if :: me == N - 1 -> (born) :: else fi;
  if :: dead[me] -> goto killed :: else fi;
  if :: PLANES == 2 && !FORK && me == N - 1 -> STEP(plane = true) :: else fi; /* Segment::ensure_plane */
  do
  :: n < OPS -> n++;
     if
     :: me == 0 && allocations < ALLOCS -> allocate()
     :: use[me] & 1 -> b = 0; send(b)
     :: B > 1 && (use[me] & 2) -> b = B - 1; send(b)
     :: use[me] & 1 -> b = 0; release(b)
     :: B > 1 && (use[me] & 2) -> b = B - 1; release(b)
     :: FORK && me == 1 && !born && use[me] != 0 -> fork()
     :: atomic { ticket[0].message && ticket[0].reads < READS -> ticket[0].reads++; t = 0 }; receive()
     :: atomic { T > 1 && ticket[T - 1].message && ticket[T - 1].reads < READS -> ticket[T - 1].reads++; t = T - 1 }; receive()
     :: else -> skip
     fi; b = 0
  :: break
  od;
  do :: use[me] & 1 -> b = 0; release(b) :: B > 1 && (use[me] & 2) -> b = B - 1; release(b) :: use[me] == 0 -> break od;
  if :: FORK && me == 1 && !born -> d_step { born = true; dead[N - 1] = true; vacated[N - 1] = true } :: else fi;
killed:
  skip;
  d_step { n = 0; b = 0; t = 0; k = 0; s_generation = 0; s_epoch = 0; s_senders = 0; busy = false; won = false; held = false; seen = false; low = 0; deaths_seen = 0; done[me] = true; if :: FORK && me == 1 && !born -> born = true; dead[N - 1] = true; vacated[N - 1] = true :: else fi }
}

/* sweep (csrc/arena/reclaim.hpp), for a dead slot or, after a manager's death, for none. */
#ifdef SWEEP_OWN_ONLY
#define SWEEP_TRIES had
#else
#define SWEEP_TRIES true
#endif
inline sweep() {
  b = 0;
  do
  :: b < B ->
     if :: p != NONE -> MSTEP(had = (block[b].holders & bit(p)) != 0; block[b].holders = block[b].holders & ~bit(p)) :: else had = true fi;
     if :: SWEEP_TRIES -> TRY_FREE(MSTEP); if :: won -> MARK(MSTEP) :: else fi :: else fi;
     b++
  :: else -> break
  od; b = 0
}

/* ArenaRegistry::collect: a group's tickets are spent as read, then the block is tried. */
inline spend() {
  MSTEP(b = ticket[t].block; ticket[t].live = false; ticket[t].sent = false);
  TRY_FREE(MSTEP); if :: won -> MARK(MSTEP) :: else fi; b = 0
}

proctype Manager() {
  byte p; byte b; byte t; byte k; byte s_generation; byte s_epoch; byte s_senders; bool busy; bool won; bool had; bool seen;
  byte low; byte me = 0;
  goto serve;
adopt: /* ServedSession::adopt */
  skip;
  d_step { busy = false; won = false; seen = false; s_generation = 0; s_epoch = 0; s_senders = 0; k = 0; t = 0; b = 0; p = NONE };
  sweep(); MSTEP(deaths_counted++);
serve:
  do
  :: atomic { dead[0] && !vacated[0] -> p = 0 } -> goto vacate
  :: atomic { dead[1] && !vacated[1] -> p = 1 } -> goto vacate
  :: atomic { dead[N - 1] && !vacated[N - 1] -> p = N - 1 } -> goto vacate
  :: atomic { collects < COLLECTS && ticket[0].live -> collects++; t = 0 }; spend()
  :: atomic { COLLECTS && T > 1 && collects < COLLECTS && ticket[T - 1].live -> collects++; t = T - 1 }; spend()
  :: done[0] && done[1] && done[N - 1] && (!dead[0] || vacated[0]) && (!dead[1] || vacated[1]) && (!dead[N - 1] || vacated[N - 1]) -> break
  od;
  /* At rest. gc spends what was never read; then nothing may be left. */
  t = 0; do :: t < T -> if :: ticket[t].live -> spend() :: else fi; t++ :: else -> break od;
  skip;
  d_step {
    b = 0;
    do :: b < B -> assert(!block[b].live); assert(block[b].holders == 0); b++ :: else -> break od;
    /* Without a death the freed map alone told the owner of every block. */
    if :: deaths == 0 && manager_deaths == 0 ->
         low = 0; if :: freed_top -> low = freed_low :: else fi;
         b = 0; do :: b < B -> assert(!(given & bit(b)) || (low & bit(b))); b++ :: else -> break od
       :: else fi
  };
  goto over;
vacate: /* Deaths::sweep */
  if :: p == 0 -> MSTEP(orphaned = true) :: else fi;
  sweep();
  MSTEP(vacated[p] = true); MSTEP(deaths_counted++);
  goto serve;
over: skip
}

init {
  atomic {
    byte i = 0;
    if :: START_HELD -> block[0].live = true; block[0].holders = START_HELD; given = 1; allocations = 1;
          do :: i < N -> if :: START_HELD & bit(i) -> use[i] = 1 :: else fi; i++ :: else -> break od; i = 0
       :: else fi;
    do :: i < N -> run Process(i); i++ :: else -> break od;
    run Manager()
  }
}
