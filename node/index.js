'use strict';

const { Capture } = require('./lib/capture.js');
const { Conversation } = require('./lib/conversation.js');
const errors = require('./lib/errors.js');
const { Inbox, Thoughts } = require('./lib/inbox.js');
const { Log, argsSha256, open, version } = require('./lib/log.js');
const { Run } = require('./lib/run.js');

exports.open = open;
exports.Log = Log;
exports.Capture = Capture;
exports.ConversationHandle = Conversation;
exports.Inbox = Inbox;
exports.Run = Run;
exports.Thoughts = Thoughts;
exports.argsSha256 = argsSha256;
exports.version = version;
exports.DecklogError = errors.DecklogError;
exports.BatchError = errors.BatchError;
exports.StoreIOError = errors.StoreIOError;
exports.InvalidInputError = errors.InvalidInputError;
exports.NotFoundError = errors.NotFoundError;
exports.LifecycleError = errors.LifecycleError;
exports.ConflictError = errors.ConflictError;
exports.LockedError = errors.LockedError;
exports.PoisonedError = errors.PoisonedError;
exports.DamagedError = errors.DamagedError;
exports.NewerFormatError = errors.NewerFormatError;
exports.NotAStoreError = errors.NotAStoreError;
exports.ReadOnlyError = errors.ReadOnlyError;
exports.NetworkFileSystemError = errors.NetworkFileSystemError;
exports.UserIdKeyError = errors.UserIdKeyError;
exports.QueueFullError = errors.QueueFullError;
exports.RemoteError = errors.RemoteError;
exports.ClosedError = errors.ClosedError;

// Loaded when used: the program that imports the package starts sooner.
for (const name of ['wrap', 'decklogMiddleware']) {
  Object.defineProperty(exports, name, {
    enumerable: true,
    get: () => require('./lib/wrap/index.js')[name],
  });
}
