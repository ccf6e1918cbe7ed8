// Package compute is the house that knows what a server needs and where it shall lie. It holds no code itself; this is
// the walk through its rooms.
//
//	        POST /v2.1/servers                      PUT …/guests/{server}
//	                │                                        │
//	flavor.Ask ◄── server ───────► conduct.Conductor ◄───────┘            who speaks to us
//	flavor × aliases                 │       ▲
//	→ request groups                 │ Tell  │ perform
//	                                 ▼       │
//	              store ◄──────── saga.Runner ───────► conduct            what is due, again and again
//	  record, due, revision          │  ▲                 │
//	        │                  event │  │ next record     │ GET candidates, PUT and DELETE allocations
//	        │                        ▼  │                 ▼
//	        │                   lifecycle.Next        Placement
//	        │                                             │
//	        │                   schedule.Choose ◄─────────┘               what could be had → where
//	        ▼                     ▲
//	  assignments               reports
//	        │                     │
//	        └──────► agent ───────┘                                       what is so
//
// Three of the rooms decide and do nothing. Package flavor turns a flavor and its aliases into request groups, one for each
// device. Package schedule judges each of Placement's candidates on its host and puts those that stand in order.
// Package lifecycle is the machine: a state and an event give the next state, and the state says what is to be done.
//
//	            Chosen              Claimed              GuestRunning
//	scheduling ─────────► claiming ─────────► assigned ───────────────► active
//	  ▲  │  ▲               │  │               │   │                      │
//	  │  │  └───────────────┘  │   GuestFailed │   │ DeleteRequested      │ DeleteRequested
//	  │  │    all lost         │               ▼   └──────► unassigning ◄─┘
//	  │  │                     │          retreating            │ GuestGone
//	  │  │ NothingFits         │ Refused    │ │                 ▼
//	  │  └───────► error ◄── failing        │ │             releasing ───► deleted
//	  │                  Released           │ │                  Released
//	  └─────────────────────────────────────┘ └ DeleteRequested, from everywhere that may hold a claim → releasing
//	               Released
//
// The record of a server is stored before its step is taken, so a process that is killed begins again with the step that
// was due. Every step bears that: Schedule only asks; Claim first looks whether the claim is there already; Release
// deletes what may be gone. A claim exists in Placement only while the record is in a state from claiming to
// releasing, and no record leaves these states but through Release, or through a refusal after which
// nothing is held. A test walks every event through every state to see that.
//
// Nobody commands an agent. A server that is assigned or active stands in the assignments of its host, which the agent reads;
// one that is to be deleted does not, and keeps its claim until the agent has said that nothing of the guest is left.
// Only a server of which the agent has never told is released at once: there is nothing that
// the agent could tell the end of.
//
// Every refusal is a sentence. It becomes part of the server's trail, and the last one its fault: what the user reads, and
// what `berth server why` prints.
package compute
