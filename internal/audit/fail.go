package audit

// A failpoint stops the journal at a named place: tests kill the process
// there, or return the error a disk would. Nil in production.
//
//	commit-begin      requests taken from the queue, nothing written
//	before-commit     transaction filled; an error here is a write that failed
//	                  and left nothing (syscall.ENOSPC: the disk is full)
//	after-commit      transaction durable; an error here is a write that was
//	                  applied but reported as failed
//	before-ack        the journal knows of the commit, callers do not
//	create-database   the new database exists under its temporary name
//	create-keys       the keys exist, the database has not got its name
//	close-checkpoint  the last checkpoint is written, the file not closed
//	close-marker      the file is closed, its clean marker not written
//	segment-written   a segment is synced under its temporary name
//	segment-renamed   it has its name, and was not read back
//	segment-verified  it was read back, the log does not say so
//	segment-recorded  the log says that it is in the archive, no body was dropped
//	bodies-dropping   some of its bodies have left the file
//	bodies-dropped    all of them have, and nothing says that these were all
type failpoint func(name string) error

// Failpoints lists the names that every journal's life reaches, in its order.
func Failpoints() []string {
	return []string{
		"create-database", "create-keys",
		"commit-begin", "before-commit", "after-commit", "before-ack",
		"close-checkpoint", "close-marker",
	}
}

// ArchiveFailpoints lists those that archiving reaches, in its order.
func ArchiveFailpoints() []string {
	return []string{
		"segment-written", "segment-renamed", "segment-verified", "segment-recorded", "bodies-dropping", "bodies-dropped",
	}
}
