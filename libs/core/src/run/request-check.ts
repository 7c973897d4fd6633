import { ConfigurationError, InvalidRequestError, isRecord } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { type LoopProfile, type LoopRequest, REQUEST } from '../contracts/loop-request.js';
import { stopFindings } from '../loop/stop-conditions.js';
import type { ClientTerms } from './run-preparation.js';
import type { ResumedRun } from './saved-run.js';

/**
 * Checks all that the application says in a request.
 *
 * @throws ConfigurationError with every finding
 */
export function assertRequest<Actor>(
  request: LoopRequest<unknown, Actor>,
  profile: LoopProfile,
  catalog: ToolCatalog,
  known?: KnownRun,
): void {
  if (known?.isOneCall) return; // its options were checked as those of a call
  const announced = [request, profile]
    .flatMap(({ injection }) => injection || [])
    .flatMap((strategy) => strategy.announced ?? []);
  const findings = [
    ...REQUEST.findings(request, AT),
    ...stopFindings(request.stopWhen, AT, catalog, announced),
  ];
  if (findings.length > 0) throw new ConfigurationError(findings, AT);
}

/**
 * A run that has an id already, and may have gone on for a while; or one that makes one call and
 * asks no model.
 */
export type KnownRun = Pick<ResumedRun, 'runId'> &
  Partial<ResumedRun> & {
    readonly isOneCall?: boolean;
  } & ClientTerms;

export function assertIdentified<Actor>({
  tenant,
  actor,
}: Pick<LoopRequest<unknown, Actor>, 'tenant' | 'actor'>): void {
  if (typeof tenant !== 'string' || tenant === '')
    throw invalid(
      'A run needs a tenant: pass the id of whose data it is about; a single-tenant application passes a constant.',
    );
  if (actor === undefined || actor === null)
    throw invalid(
      'A run needs an actor: pass whom it acts for; an application without users passes a constant.',
    );
}

/** A request that cannot be, with what to send instead. */
export function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}

export const AT = 'request';

/**
 * Throws `InvalidRequestError` for ids that name nothing. They are the client's words more often
 * than the application's.
 */
export function assertIds(
  request: Pick<LoopRequest, 'requestId' | 'conversationId' | 'messageId'>,
): void {
  for (const name of ['requestId', 'conversationId', 'messageId'] as const) {
    const id: unknown = request[name];
    if (id !== undefined && (typeof id !== 'string' || id === ''))
      throw new InvalidRequestError(
        'invalid_request',
        `The \`${name}\` is empty or not a string. Give a string, or leave it out.`,
      );
  }
}

const MOST_PLACES = 100;

/** Throws `InvalidRequestError` for a cut that names no place, or of nothing. */
export function assertCut({
  cut,
  conversationId,
  rehearse,
}: Pick<LoopRequest, 'cut' | 'conversationId' | 'rehearse'>): void {
  if (cut === undefined) return;
  const { at, after = [] }: { readonly at?: unknown; readonly after?: unknown } = isRecord(cut)
    ? cut
    : {};
  if (!isListOfIds(at) || !isListOfIds(after))
    throw invalid(
      `\`cut\` has the lists \`at\` and \`after\`, each of at most ${MOST_PLACES} ids: { at: [runId] }.`,
    );
  if (conversationId === undefined)
    throw invalid('A `cut` is made in a conversation: give its `conversationId`.');
  if (rehearse)
    throw invalid(
      'A rehearsal changes nothing, so it cuts no conversation. Leave `cut` or `rehearse` out.',
    );
}

function isListOfIds(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length <= MOST_PLACES &&
    value.every((id) => typeof id === 'string' && id !== '')
  );
}
