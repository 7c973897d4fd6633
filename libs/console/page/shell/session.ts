import { readHttpError, ToolLoopClient } from '@toolloop/client';
import type { Place } from './place.js';

/** The person who looks at the page, and what it may show them. */
export interface Session {
  readonly actor: {
    readonly id?: string;
    readonly name?: string;
    readonly roles: readonly string[];
  };
  readonly tenant: string;
  readonly may: readonly string[];
  /** The actions that the person may take for all tenants. */
  readonly everywhere: readonly string[];
  readonly csrf?: string;
  /** Runs are kept, and continue without their reader. */
  readonly durable: boolean;
  /** The parts of evaluations that the application keeps. */
  readonly evaluations: { readonly results: boolean; readonly verdicts: boolean };
}

/** The state of the way in: signed in, or how one could. */
export type Entry =
  { readonly session: Session } | { readonly ways: readonly string[]; readonly problem?: string };

const HEADER = 'x-toolloop-console';

/** Asks the server who looks at the page; a link in the address is used up first. */
export async function enter(place: Place): Promise<Entry> {
  const link = /^#link=([\w-]+)$/.exec(location.hash)?.[1];
  if (link === undefined) return readSession(place);
  history.replaceState(null, '', location.pathname + location.search);
  const problem = await sendWayIn(place, { link });
  const entry = await readSession(place);
  return problem === undefined || 'session' in entry ? entry : { ...entry, problem };
}

/** Signs in; resolves to what the server objects to, if anything. */
export async function sendWayIn(
  { own, fetch: send = fetch }: Place,
  wayIn: object,
): Promise<string | undefined> {
  const headers = { 'content-type': 'application/json', [HEADER]: '1' };
  const response = await send(`${own}/session`, {
    method: 'POST',
    headers,
    body: JSON.stringify(wayIn),
  });
  return response.ok
    ? undefined
    : messageOf(await response.json().catch(() => null), response.status);
}

export async function leave({ own, fetch: send = fetch }: Place): Promise<void> {
  await send(`${own}/session`, { method: 'DELETE', headers: { [HEADER]: '1' } });
}

/**
 * Tells whether the server knows of no session any more. A server that does not answer has said
 * nothing about it.
 */
export async function isOver(place: Place): Promise<boolean> {
  const entry = await readSession(place);
  return 'ways' in entry && entry.problem === undefined;
}

export function clientOf({ api, fetch: send }: Place, { csrf }: Session): ToolLoopClient {
  return new ToolLoopClient({
    url: api,
    headers: () => ({ ...(csrf !== undefined && { [HEADER]: csrf }) }),
    ...(send && { fetch: send }),
  });
}

/** A question to a route of the console itself; with a body it sends one. */
export interface OwnQuestion<Answer> {
  readonly path: string;
  readonly body?: object;
  /** Tells an answer from what a proxy may send in its place. */
  readonly isAnswer: (value: unknown) => value is Answer;
}

/** Asks a route of the console itself. */
export async function askOwn<Answer>(
  { own, fetch: send = fetch }: Place,
  { csrf }: Session,
  { path, body, isAnswer }: OwnQuestion<Answer>,
): Promise<Answer> {
  const headers = {
    ...(csrf !== undefined && { [HEADER]: csrf }),
    ...(body && { 'content-type': 'application/json' }),
  };
  const response = await send(`${own}/${path}`, {
    headers,
    cache: 'no-store',
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  });
  if (!response.ok) throw await readHttpError(response);
  const answer: unknown = await response.json();
  if (isAnswer(answer)) return answer;
  throw new Error(`${path}: HTTP ${response.status}`);
}

async function readSession({ own, fetch: send = fetch }: Place): Promise<Entry> {
  const response = await send(`${own}/session`, { cache: 'no-store' });
  const body: unknown = await response.json().catch(() => null);
  if (response.ok && isSession(body)) return { session: body };
  return response.ok
    ? { ways: waysIn(body) }
    : { ways: [], problem: messageOf(body, response.status) };
}

function isSession(body: unknown): body is Session {
  return (
    typeof body === 'object' &&
    body !== null &&
    'actor' in body &&
    'tenant' in body &&
    'may' in body
  );
}

function waysIn(body: unknown): readonly string[] {
  const ways: unknown =
    typeof body === 'object' && body !== null && 'ways' in body ? body.ways : undefined;
  return Array.isArray(ways) ? ways.map(String) : [];
}

function messageOf(body: unknown, status: number): string {
  const isTold =
    typeof body === 'object' &&
    body !== null &&
    'message' in body &&
    typeof body.message === 'string';
  return isTold ? String(body.message) : `HTTP ${status}`;
}
