// Package pebblekv keeps the rows of the views in a Pebble database: the
// projections.Store of the engine.
//
// Start with [Open]. Where it says [ErrDamaged], [SetAside] moves the folder out
// of the way and the next Open begins an empty store, which projections.Fold
// fills again from the book.
//
// [Store.Load] is for the many rows of a fold: it sorts them in memory and lets Pebble take
// them as tables, without a log and mostly without a compaction.
//
// What the package promises:
//
//   - The rows of a transaction and the checkpoint among them are one record of
//     Pebble's log: after a crash all of them are there or none is. Commits are
//     not fsynced, so a crash takes the newest ones; [Store.Sync] bounds how many.
//   - What a loader writes at once, rows and the checkpoint among them, is there after a
//     crash or it is not; tables that it left behind are removed by the next Open.
//   - No iterator outlives the loop that runs over it.
//   - Nothing else is ever deleted outside the database: a damaged folder is renamed.
//   - A disk that cannot be written ends the process, with a panic of *[Fatal],
//     and is not tried for ever. Where Pebble's log fails, the commit itself
//     panics, as what it reports can no longer be relied on. Where a flush or a
//     compaction fails, every later Commit and Sync fails with
//     projections.ErrStore, and the sixteenth failure in a row panics: Pebble
//     tries again at once and without an end. A new process folds again what is
//     missing. The engine's watermark on free space exists so that it does not
//     come to this.
//
// Dependency: cockroachdb/pebble/v2, because views need ordered keys, atomic
// batches, snapshots and a tested crash model in one process without cgo.
package pebblekv
