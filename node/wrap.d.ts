import type { Capture, DecklogError, Kind, Log } from './index.js';

/** Where and how the requests of a client are recorded. */
export interface WrapOptions {
  /** Where to record. */
  log?: Log | undefined;
  /** Opens the log in this directory. Default: the environment variable `DECKLOG_STORE`. */
  path?: string | URL | undefined;
  /**
   * Records all requests in this conversation: a UUID, or a name of your own. Default: a request that
   * continues an answer of this client goes on in its conversation; any other request starts one.
   */
  conversation?: string | undefined;
  /** Records through this one. Default: one that is closed at exit. */
  capture?: Capture | undefined;
  /** Called with the error, the kind and the key of what was not recorded. */
  onError?: ((error: DecklogError | Error, kind: Kind | '', key: string) => void) | undefined;
}

/**
 * Records the requests of a client of the package `openai` or `@anthropic-ai/sdk`. Returns the same
 * client, which does what it did before: its methods never wait for the log, and never throw an error
 * of the log. The first one is a warning of the process.
 */
export function wrap<C extends object>(client: C, options?: WrapOptions): C;

/**
 * Middleware for `wrapLanguageModel` of the package `ai`, which records requests and answers. It is
 * given where to record, or the log itself.
 */
export function decklogMiddleware(where?: Log | WrapOptions): DecklogMiddleware;

/** Fits the type `LanguageModelMiddleware` of the package `ai`. */
export interface DecklogMiddleware {
  specificationVersion: any;
  wrapGenerate: (options: any) => Promise<any>;
  wrapStream: (options: any) => Promise<any>;
}
