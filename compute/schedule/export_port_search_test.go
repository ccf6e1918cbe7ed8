package schedule

// PlanPortsWithin is PlanPorts with a limit of the ways to place the ports.
var PlanPortsWithin = planPorts
