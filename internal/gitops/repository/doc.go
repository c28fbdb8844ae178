// Package repository is one Git repository: kept warm on disk, read, committed
// to, pushed and reverted.
//
// There is no work tree. Files come from the object store, and a commit is
// built from objects, so that no link in a repository leads anywhere. A push
// is a compare-and-swap of one branch: it moves exactly the commit that the
// plan was made on, or nothing.
//
// The clone on disk (<Dir>/clone) is a cache: shallow, fetched incrementally,
// and thrown away and made anew when it is damaged or of another repository.
// <Dir>/lock keeps a second process out.
//
// A write is recognised by its trailer Responder-Effect: while a commit with it is
// on the branch, committing again returns that commit.
//
// Every error is a [fault.Error]. Unknown means that a push may have happened;
// [Repository.Find] resolves it. Texts of a server are shown in errors without
// credentials that they may echo.
package repository
