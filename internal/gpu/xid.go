package gpu

// XIDClass is what an XID says about the GPU.
type XIDClass string

// Classes of XIDs, mildest first.
const (
	XIDNote        XIDClass = "note"        // no fault of the GPU
	XIDApplication XIDClass = "application" // a fault of what runs on it
	XIDContained   XIDClass = "contained"   // an error of the hardware that took only its process with it
	XIDLink        XIDClass = "link"        // NVLink; the message in the kernel log says how bad
	XIDRepair      XIDClass = "repair"      // a repair was recorded that a reset completes
	XIDUnknown     XIDClass = "unknown"     // not in the table
	XIDReset       XIDClass = "reset"       // the GPU needs a reset
	XIDReboot      XIDClass = "reboot"      // the node needs a reboot
	XIDMechanical  XIDClass = "mechanical"  // cables and seating are to be looked at
	XIDReplace     XIDClass = "replace"     // the GPU is to be replaced
)

type xidEntry struct {
	class XIDClass
	text  string
}

// xids holds what NVIDIA's XID catalog
// (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) has for Ampere and later. Its immediate action
// makes the class: RESTART_APP and IGNORE are no fault of the GPU, RESET_GPU and
// RESTART_BM are. Numbers it calls unused are not here: should one appear, it
// means something new, and nobody can say that it is harmless.
//
// Two sources disagree about 109: the catalog resets the GPU, NVIDIA's device
// plugin takes it for the application's. It is a repair here: degraded, not
// failing.
var xids = map[uint64]xidEntry{
	8:  {XIDApplication, "GPU stopped processing"},
	11: {XIDApplication, "invalid or corrupted push buffer stream"},
	13: {XIDApplication, "graphics engine exception"},
	25: {XIDApplication, "invalid or illegal push buffer stream"},
	31: {XIDApplication, "GPU memory page fault"},
	32: {XIDApplication, "invalid or corrupted push buffer stream"},
	43: {XIDApplication, "GPU stopped processing"},
	45: {XIDApplication, "preemptive cleanup after an earlier error"},
	60: {XIDApplication, "video processor exception"},
	68: {XIDApplication, "video decoder exception"},
	69: {XIDApplication, "graphics engine class error"},
	80: {XIDApplication, "corrupted data sent to the GPU"},
	86: {XIDApplication, "optical flow exception"},

	14: {XIDNote, "not used"}, 37: {XIDNote, "driver firmware error"}, 38: {XIDNote, "driver firmware error"},
	44: {XIDNote, "graphics engine fault during context switch"}, 66: {XIDNote, "illegal access by the driver"},
	67: {XIDNote, "illegal access by the driver"}, 93: {XIDNote, "InfoROM wear limit"}, 106: {XIDNote, "test message"},
	107: {XIDNote, "test message"}, 108: {XIDNote, "remote NVLink translation"}, 121: {XIDNote, "C2C error"},
	137: {XIDNote, "NVLink privilege error, an illegal access of a peer"}, 139: {XIDApplication, "optical flow error"},
	141: {XIDNote, "CUDA fast path error"}, 160: {XIDNote, "channel retirement"}, 162: {XIDNote, "power smoothing engaged"},
	163: {XIDNote, "power smoothing disengaged"}, 164: {XIDNote, "power smoothing near the end of its life"},

	63:  {XIDRepair, "a memory row was remapped, or a page retired; active after a reset"},
	109: {XIDRepair, "context switch timeout"},
	156: {XIDRepair, "a resource was retired"},
	92:  {XIDContained, "high rate of single bit ECC errors"},
	94:  {XIDContained, "contained memory error; its process is gone"},
	74:  {XIDLink, "NVLink error"},
	144: {XIDLink, "NVLink SAW error"},
	145: {XIDLink, "NVLink RLW error"},
	146: {XIDLink, "NVLink TLW error"},
	147: {XIDLink, "NVLink TREX error"},
	148: {XIDLink, "NVLink control error"},
	149: {XIDLink, "NVLink NETIR error"},
	150: {XIDLink, "NVLink MSE error"},

	46:  {XIDReset, "GPU stopped processing"},
	48:  {XIDReset, "double bit ECC error"},
	62:  {XIDReset, "internal micro-controller halt"},
	95:  {XIDReset, "uncontained memory error"},
	110: {XIDReset, "security fault"},
	119: {XIDReset, "GSP did not answer"},
	120: {XIDReset, "GSP error"},
	136: {XIDReset, "link training failed"},
	140: {XIDReset, "unrecovered ECC error"},
	143: {XIDReset, "GPU initialisation error"},
	155: {XIDReset, "NVLink error found by software"},
	158: {XIDReset, "fatal timeout"},
	169: {XIDReset, "internal micro-controller halt"},
	171: {XIDReset, "uncorrectable error in DRAM"},
	172: {XIDReset, "uncorrectable error in SRAM"},
	79:  {XIDReboot, "GPU has fallen off the bus"},
	151: {XIDReboot, "key rotation error"},
	167: {XIDReboot, "fatal timeout on PCIe"},
	54:  {XIDMechanical, "auxiliary power is not connected"},
	64:  {XIDReplace, "a memory row could not be remapped, or a page not retired"},
	157: {XIDReplace, "a resource could not be retired"},
	168: {XIDReplace, "less memory, after errors in a protected region"},
}

// xidEngines are the copy, video and JPEG engines, whose errors are all the
// application's.
var xidEngines = []struct {
	first, last uint64
	text        string
}{
	{39, 41, "copy engine exception"},
	{70, 72, "copy engine error"},
	{75, 77, "copy engine error"},
	{82, 82, "JPEG engine error"},
	{83, 84, "video decoder error"},
	{85, 85, "copy engine error"},
	{88, 89, "video decoder error"},
	{96, 98, "video decoder error"},
	{99, 105, "JPEG engine error"},
	{126, 135, "copy engine error"},
}

// HarmlessXID reports whether an XID, or none (0), says nothing of the GPU however
// often it comes.
func HarmlessXID(code uint64) bool {
	class, _ := ClassifyXID(code)
	return code == 0 || class == XIDNote || class == XIDApplication
}

// ClassifyXID returns what an XID means, and its name.
func ClassifyXID(code uint64) (XIDClass, string) {
	if e, ok := xids[code]; ok {
		return e.class, e.text
	}
	for _, e := range xidEngines {
		if code >= e.first && code <= e.last {
			return XIDApplication, e.text
		}
	}
	return XIDUnknown, "unknown XID"
}
