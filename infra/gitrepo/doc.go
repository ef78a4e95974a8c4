// Package gitrepo writes proposed files into a git repository, as one commit on a
// branch of its own, and reads an approved file back by the full id of its commit.
//
// Start with [Open]. [Repo.Commit] writes, [Repo.Blob] reads. [ValidPath] and
// [ValidBranch] say beforehand what a name may be.
//
// What the package promises:
//
//   - Nothing that the repository configures runs: no hook, filter, monitor,
//     signing program, pager, alias or helper. git is started in a folder made for
//     one operation, with a configuration that is ours and links to the objects and
//     refs of the repository. The repository's own configuration, hooks, attributes,
//     index and work tree are not in that folder, so git does not see them; its
//     format is read by us, as text. Nothing of the environment reaches git either.
//   - A commit adds regular files of mode 100644 to the tree of its parent, or where
//     asked to puts them in the place of such files, and changes nothing else. Its
//     branch is new. Work tree, index, HEAD, the log of refs and every other ref stay as
//     they are, byte for byte.
//   - The branch comes last, in one step: whatever ends an operation before leaves
//     objects that nothing names, which git clears away in its own time. Whoever
//     ends it during that step gets the truth: an error, or a commit on its branch.
//   - What is read is checked against its id, from the commit down to the file, by
//     us. The id of git is SHA-1 in most repositories: whoever approves bytes keeps
//     a digest of them and compares it too.
//   - What leaves the repository is refused: a .git that is a file or a link, linked
//     objects or refs, objects borrowed from elsewhere. So are repositories that
//     fetch objects when they are asked for, and formats that this package does not
//     know (refs kept as reftable among them).
//
// The repository's folder is a person's to choose. Whoever can exchange it while an
// operation runs decides where its objects go, but runs nothing by that.
//
// Objects and branches get the modes of the engine's umask: core.sharedRepository
// is configuration, and not read. Where a git was killed while it made a branch, its
// lock stays; that branch's name is [ErrBusy] until a person removes the lock.
//
// A [Repo] may be used by many goroutines at once. It holds nothing open.
package gitrepo
