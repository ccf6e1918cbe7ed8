// Package compute contains the compute service: what a server needs, and on which host it runs. This file has no code.
// It describes the packages below it.
//
//	      POST /v2.1/servers                      PUT …/guests/{server}
//	              │                                        │
//	             server ──────► conductor.Conductor ◄──────┘            requests of users and agents
//	                               │       ▲
//	                               │ Apply │ perform
//	                               ▼       │
//	            store ◄──────── runner.Runner ─────► conductor          executes steps, repeats, resumes
//	record, due, revision          │  ▲                 │
//	      │                  event │  │ next record     │ flavor.Ask: flavor × image × aliases → request groups
//	      │                        │  │                 │ GET candidates, PUT and DELETE allocations
//	      │                        ▼  │                 ▼
//	      │                   lifecycle.Next        Placement
//	      │                                             │
//	      │                   schedule.Choose ◄─────────┘               candidates → hosts
//	      ▼                     ▲
//	assignments               reports
//	      │                     │
//	      └──────► agent ───────┘
//
// Three packages are pure. Package flavor builds request groups from a flavor and its aliases, one group per device.
// Package schedule judges each of Placement's candidates on its host and orders the accepted ones. Package lifecycle is
// the state machine: a state and an event give the next state, and the state determines the next steps.
//
// A new server is first in the state preparing, until its request is built (Prepared); a request that cannot be built
// ends in error. A server that moves is in the state moving, and its move has phases of its own.
//
//	            Chosen              Claimed              GuestRunning
//	scheduling ─────────► claiming ─────────► spawning ───────────────► active
//	  ▲  │  ▲               │  │               │   │                      │
//	  │  │  └───────────────┘  │   GuestFailed │   │ DeleteRequested      │ DeleteRequested
//	  │  │   all lost          │               ▼   └─────► deleting guest ◄┘
//	  │  │                     │         rescheduling           │ GuestGone
//	  │  │ NoValidHost         │ Refused    │ │                 ▼
//	  │  └───────► error ◄── failing        │ │        deleting allocation ───► deleted
//	  │                  Released           │ │                     Released
//	  └─────────────────────────────────────┘ └ DeleteRequested, in every state that may hold a claim
//	               Released                     → deleting allocation
//
// The record of a server is stored before its step runs. A process that was killed therefore begins again with the step
// that was due, so every step may be repeated: the first result of Prepare is stored; Schedule only reads; Claim first
// reads whether the claim exists; Release deletes what may already be gone. A claim exists in Placement only while the
// record is in a state between claiming and deleting allocation. A record leaves these states only through Release, or
// through a refusal after which nothing is held. A test applies every event in every state and checks this.
//
// Compute never calls an agent. The agent reads the assignments of its host: the servers that must be there, and the
// guests that must be removed. A guest to be removed is listed until the agent reports that it is gone; only then is
// its claim released. A guest that the assignments do not mention keeps running.
//
// Every refusal is a sentence. It is added to the history of the server. The last one is the fault that users read and
// that `berth server why` prints.
package compute
