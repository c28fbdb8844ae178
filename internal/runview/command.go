package runview

// VerifyCommand checks the audit log.
const VerifyCommand = "responder audit verify"

// ShowCommand shows a run with all of its events.
func ShowCommand(run string) string { return "responder runs show " + run }

// WatchCommand follows a run.
func WatchCommand(run string) string { return "responder runs watch " + run }
