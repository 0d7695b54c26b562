import decklog from './index.js';

export const {
  open,
  Log,
  Capture,
  ConversationHandle,
  Inbox,
  Run,
  Thoughts,
  argsSha256,
  version,
  DecklogError,
  BatchError,
  StoreIOError,
  InvalidInputError,
  NotFoundError,
  LifecycleError,
  ConflictError,
  LockedError,
  PoisonedError,
  DamagedError,
  NewerFormatError,
  NotAStoreError,
  ReadOnlyError,
  NetworkFileSystemError,
  UserIdKeyError,
  QueueFullError,
  RemoteError,
  ClosedError,
} = decklog;
export const wrap = (...given) => decklog.wrap(...given);
export const decklogMiddleware = (...given) => decklog.decklogMiddleware(...given);
