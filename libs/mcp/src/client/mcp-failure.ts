import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import { isObject } from '@toolloop/protocol';

/**
 * The reasons for which a request to a server fails, as far as they decide what may be done about
 * it.
 */
export type Failure = 'refused' | 'not_sent' | 'session_gone' | 'unreadable' | 'lost';

/**
 * Tells how far a request came: the server has answered with an error (`refused`), has not got it
 * (`not_sent`), does not know the session any more (`session_gone`), has answered in a form that
 * cannot be read (`unreadable`), or may have done what it asks for (`lost`).
 */
export function failureOf(error: unknown): Failure {
  if (error instanceof ProtocolError) return 'refused';
  if (error instanceof SdkHttpError) return ofStatus(error.status);
  if (error instanceof SdkError) return OF_CODES.get(error.code) ?? 'lost';
  if (isObject(error) && UNREADABLE.test(String(error['name']))) return 'unreadable';
  return UNREACHED.has(codeOf(error)) ? 'not_sent' : 'lost';
}

/** A server, or a proxy before it, may give up on a request that it has begun with. */
const REQUEST_TIMEOUT = 408;

function ofStatus(status: number): Failure {
  if (status === 404) return 'session_gone';
  return status < 500 && status !== REQUEST_TIMEOUT ? 'refused' : 'lost';
}

const OF_CODES: ReadonlyMap<string, Failure> = new Map<string, Failure>([
  [SdkErrorCode.NotConnected, 'not_sent'],
  [SdkErrorCode.UnsupportedResultType, 'refused'],
  [SdkErrorCode.InvalidResult, 'unreadable'],
  [SdkErrorCode.ClientHttpUnexpectedContent, 'unreadable'],
]);

/**
 * The errors about what is no JSON, no message of the protocol, which the SDK reads with a Zod of
 * its own, or no answer.
 */
const UNREADABLE = /^(?:SyntaxError|\$?ZodError|UnreadableAnswerError)$/;

/** Codes of sockets that were never connected. */
const UNREACHED: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'EACCES',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Returns the code of an error or of one of its causes; empty where there is none. */
function codeOf(error: unknown): string {
  let one: unknown = error;
  for (let depth = 0; depth < 5 && one instanceof Error; depth += 1) {
    const code: unknown = Reflect.get(one, 'code');
    if (typeof code === 'string' && UNREACHED.has(code)) return code;
    one = one.cause;
  }
  return '';
}
