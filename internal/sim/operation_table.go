package sim

import (
	"slices"
)

// ops returns all kinds of operations.
func ops() []op {
	return []op{
		{"step", 300, (*operations).stepSome},
		{"agent", 560, (*operations).agentSome},
		{"create", 45, (*operations).createSome},
		{"action", 40, (*operations).requestAction},
		{"delete", 12, (*operations).removeSome},
		{"evacuate", 6, (*operations).evacuate},
		{"restart", 6, (*operations).restartSome},
		{"down", 3, (*operations).downSome},
		{"up", 6, (*operations).upSome},
		{"unplug", 4, (*operations).unplugSome},
		{"plug", 6, (*operations).plugSome},
		{"rules", 2, (*operations).ruleSome},
		{"clean", 5, (*operations).cleanSome},
		{"foreign", 5, (*operations).foreignClient},
		{"late", 8, (*operations).arrive},
		{"unfollowed", 6, (*operations).checkFollowed},
		{"audit", 25, (*operations).auditSome},
		{"steal", 1, (*operations).stealAllocation},
		{"operator", 8, func(op *operations) { op.repairs.operatorSome() }},
		{RestartCompute, 1, (*operations).restartCompute},
		{Backup, 1, (*operations).backupSome},
		{Restore, 1, (*operations).restoreSome},
		{Copy, 1, (*operations).copySome},
		{Replace, 1, (*operations).replaceSome},
		{Jump, 1, (*operations).jumpSome},
		{Lose, 1, (*operations).loseSome},
		{Forget, 1, (*operations).forgetSome},
		{"disable", 4, (*operations).disableSome},
		{"enable", 4, (*operations).enableSome},
		{"abort", 4, (*operations).requestOfMigration},
		{Ports, portShare - 8, (*operations).changePort}, // the last ones, see shares
		{Policy, 8, (*operations).changePolicy},
	}
}

// The sums of the shares of all kinds of operations without those on ports, and of these.
const sharesWithoutPorts, portShare = 1068, 24

// shares is the sum of the shares of all kinds of operations. Without ports the random numbers are used as if there
// were no operations on them.
func (op *operations) shares() int {
	if slices.Contains(op.options.Without, Ports) {
		return sharesWithoutPorts
	}
	return sharesWithoutPorts + portShare
}

func kindsOfOps() (list []string) {
	for _, o := range ops() {
		if o.kind != "step" && o.kind != "agent" {
			list = append(list, o.kind)
		}
	}
	return list
}

// operate does one operation. If the drawn one is not possible now, another one is drawn.
func (op *operations) operate() {
	before := op.noted
	for range 8 {
		n := op.drawOp()
		for _, o := range ops() {
			if n -= o.share; n < 0 {
				if !slices.Contains(op.options.Without, o.kind) {
					o.do(op)
				}
				break
			}
		}
		op.compute.restartEnded()
		if op.noted != before {
			return
		}
	}
}

// drawOp selects an operation at random, as a number below w.shares().
func (op *operations) drawOp() int {
	every := 120
	switch {
	case op.options.Direct && op.oneIn(15):
		return op.shares() - 1 - op.rng.IntN(portShare)
	case op.broken == Demolish: // agents must have the time to follow a restored database
		every = 800
	case op.broken == Ungated:
		every = 150
	case op.options.Often != "":
		every = 300
	}
	if kind := op.oftenDone(); kind != "" && op.oneIn(every) {
		n := 0
		for _, o := range ops() {
			if o.kind == kind {
				return n
			}
			n += o.share
		}
	}
	return op.rng.IntN(op.shares())
}

// op is a kind of operation with its share.
type op struct {
	kind  string
	share int
	do    func(*operations)
}
