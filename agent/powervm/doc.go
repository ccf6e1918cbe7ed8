// Package powervm gives an overview of the packages for hosts with PowerVM NovaLink; it contains no code.
//
//	restclient ─▶ uom ─▶ ioslot ─┐
//	                             ├─▶ slotsurvey ─▶ the desired providers of the host's I/O slots
//	inventory.yaml ─▶ inventoryfile
//
// restclient reads the managed system from the management REST API, uom decodes it, and ioslot derives the I/O slots
// with their adapters and owners. inventoryfile parses the operator's file, which names the slots that guests may have.
// slotsurvey computes one provider for each of these slots. docs/behaviour/powervm-ioslots.md has the rules.
package powervm
