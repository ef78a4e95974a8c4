// Package projectionstest helps to test the views: a suite that every
// projections.Store passes, and made-up books to fold.
//
// Start with [TestStore] for a store, and with [Histories] (any order of valid
// events, for properties) or [Busy] (what a busy book holds, for speed) for a
// book.
//
// What the package promises: the events of a book are valid one after the other,
// encode, and depend on nothing but the arguments.
package projectionstest
