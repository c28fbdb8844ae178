package playbook

import "slices"

// Class is what a lever changes. It decides what becomes of a change by the
// verdict of its proof: undoing is itself a change to a service in trouble, and
// what is not proven is not undone for that alone.
type Class string

// The classes of levers.
const (
	ClassSetting  Class = "setting"  // one flag or limit; also a lever that declares no class
	ClassCapacity Class = "capacity" // more replicas, a spare
	ClassReturn   Class = "return"   // capacity that is given back
	ClassRollback Class = "rollback" // back to what was deployed before
	ClassHardware Class = "hardware" // faulty hardware taken out, or its repair requested
	ClassRepaired Class = "repaired" // repaired hardware put back
	ClassTraffic  Class = "traffic"  // traffic moved to a warm revision
	ClassHold     Class = "hold"     // a release kept from going on
)

// LoanReturn is the name of the playbook whose runs give back what was kept for an
// incident.
const LoanReturn = "loan-return"

// ClassOf returns the class of a state's lever, and whether taking its change back
// restarts what serves. Whatever [LoanReturn] changes is given back.
func (p *Playbook) ClassOf(s *State) (class Class, restarts bool) {
	if p.Name == LoanReturn {
		return ClassReturn, false
	}
	return s.Class, s.Restarts
}

// Classes returns all classes, in the order of the documentation.
func Classes() []Class {
	return []Class{ClassCapacity, ClassReturn, ClassRollback, ClassSetting, ClassHardware, ClassRepaired, ClassTraffic, ClassHold}
}

// Verdicts returns the signals that a proof can end with.
func Verdicts() []Signal {
	return []Signal{OnVerified, OnImproved, OnNoEffect, OnWorse, OnInconclusive}
}

// NeedsPeople reports whether a lever's signal ends the run with people unless
// an edge names it. Such a signal never falls through to another lever.
func (s Signal) NeedsPeople() bool {
	return slices.Contains([]Signal{OnInconclusive, OnRefused, OnDenied, OnExpired}, s)
}
