// Package powervm gives an overview of the packages for hosts with PowerVM NovaLink; it contains no code.
//
//	restclient ─▶ uom ─▶ ioslot ───┐
//	                               ├─ slotsource ─▶ facts ─▶ slotsurvey ─▶ the desired providers of the I/O slots
//	inventory.yaml ─▶ inventoryfile┘
//
// restclient reads the managed system from the management REST API, uom decodes it, and ioslot derives the I/O slots
// with their adapters and owners. inventoryfile parses the operator's file, which names the slots that guests may have.
// slotsource is the source of facts with both. slotsurvey computes one provider for each of these slots. The driver
// agent/hypervisor/powervm builds partitions with them. docs/behaviour/powervm-ioslots.md has the rules.
package powervm
