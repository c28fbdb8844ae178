// Package node holds the levers on nodes: taking a node out and back in, moving
// pods off it, and asking for a reset of its GPUs.
//
// docs/decisions/0013 states why. The annotation responder.dev/gpus-when-out
// holds when the node went out, its boot id, the GPUs that needed a reset (some:
// one that has left the bus), those to be replaced, the conditions that pointed
// at GPUs (told), and unseen where too little was known. It is no part of the
// plan. An undo removes it; a second lever on the node adds to it. A node without
// GPUs is not annotated.
//
// A request for a repair speaks only of the GPUs that it names: some, told and
// unseen need a request for all of the node. Answered requests add up in
// responder.dev/gpu-reset-answered; a GPU that is requested anew is left out until
// that request is answered.
//
// An agent knows all events of a GPU only since its start, the last reload of the
// driver, the last break of the event stream, and the youngest event that it
// dropped. A gap after the node went out is closed by a reboot, by removing the
// annotation, by a request that was made after the gap and is answered, or by
// dcgm-exporter's gauge where it kept one value at every half minute.
package node
