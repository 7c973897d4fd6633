import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, readFileSync } from 'node:fs';
import {
  addressable,
  type ApprovalRequest,
  type ComparedCall,
  type Decision,
  type ExplainedCall,
  type ExplainedTool,
  isJsonObject,
  type ListedTool,
  type MadeCall,
  type PendingReply,
  type RehearsedRun,
  type Run,
  type ToolFailure,
  type WaitingRequest,
} from '@toolloop/protocol';
import type { AuditKeys } from '@toolloop/core/audit';
import { jsonOf, packageNear } from './application.js';
import type { Counterpart, ExportedAudit, RehearsalTerms, Verdict } from './counterpart.js';
import { type Answer, CommandError, jsonIn, lineOf, shown, table } from './output.js';

/** Lists the tools that the actor's model may call from the first step. */
export async function toolsOf(counterpart: Counterpart): Promise<Answer> {
  const value = await counterpart.tools();
  return { value, text: toolsText(value) };
}

export function toolsText(tools: readonly ListedTool[]): string {
  if (tools.length === 0) return 'No tool is permitted.';
  return table(
    tools.map(({ id, effect, description }) => [lineOf(id), effect, lineOf(description)]),
  );
}

/** Calls a tool by hand; exits with 1 for a call that did not succeed, or that waits. */
export async function calledBy(
  counterpart: Counterpart,
  tool: string,
  argsText: string,
): Promise<Answer> {
  const args = jsonIn(argsText);
  if (!isJsonObject(args))
    throw new CommandError(`The arguments must be a JSON object, such as '{"name":"Ada"}'.`);
  const value = await counterpart.call(tool, args);
  return { value, text: callText(value), exitCode: value.record.status === 'succeeded' ? 0 : 1 };
}

function callText({ record, ui, injectedTools, waiting }: MadeCall): string {
  if (waiting) return `It waits for ${waitedFor(waiting.for)}: run ${waiting.runId}.`;
  if (record.status !== 'succeeded')
    return record.error ? refusalText(record.error) : `The call is ${record.status}.`;
  const brought =
    injectedTools.length === 0
      ? []
      : [`Tools that came with it: ${injectedTools.map(lineOf).join(', ')}`];
  return [
    shown(typeof ui === 'string' ? ui : JSON.stringify(ui ?? null, undefined, 2)),
    ...brought,
  ].join('\n');
}

/** The words of a failure that a model reads, as a person at the command line can use them. */
function refusalText({ safeMessage, problems = [] }: ToolFailure): string {
  const told = shown(safeMessage).replace(FOR_A_MODEL, FOR_A_PERSON);
  return [
    told,
    ...problems.map(({ pointer, message }) => `  ${lineOf(`${pointer} ${message}`)}`),
  ].join('\n');
}

const FOR_A_MODEL = 'Use one of the tools you were given.';
const FOR_A_PERSON =
  '"toolloop tools" lists those that can be called by hand. The tool of an entity is none of them: it appears in a run that has found the entity, and is called there, such as in "toolloop chat".';

const WAITED_FOR: Readonly<Record<WaitingRequest['kind'], string>> = {
  approval: 'an approval',
  question: 'the answer to a question',
  client: 'a call of the client',
  rehearsal: 'the approval of its rehearsal',
};

export function waitedFor(kind: WaitingRequest['kind'] | undefined): string {
  return kind === undefined ? 'an answer' : WAITED_FOR[kind];
}

/** The words for the reasons of a tool, or for what became of a call. */
export function explanationText(value: ExplainedTool | ExplainedCall): string {
  if ('events' in value)
    return table(
      value.events.map(({ at, kind, decision, reason, decidedBy, status, code }) => {
        const words = [status, code, decision?.reason, reason, decidedBy && `by ${decidedBy}`];
        return [at, kind, lineOf(words.filter(Boolean).join(' · '))];
      }),
    );
  const { declaredId, isListed, isCallable, reasons } = value;
  const callable =
    isCallable === 'asks' ? 'asks before it is called' : `may ${isCallable ? '' : 'not '}be called`;
  return [
    `${lineOf(declaredId)} is ${isListed ? 'listed' : 'not listed'} and ${callable}.`,
    ...reasons.map(
      ({ by, holds, reason }) => `  ${holds ? 'yes' : 'no '}  ${by.padEnd(9)}  ${lineOf(reason)}`,
    ),
  ].join('\n');
}

/** Lists what waits for the actor. */
export async function inboxOf(counterpart: Counterpart): Promise<Answer> {
  const value = await counterpart.inbox();
  const text = value.length === 0 ? 'Nothing waits.' : value.map(waitingText).join('\n');
  return { value, text };
}

function waitingText(
  waiting: WaitingRequest,
  _index: number,
  all: readonly WaitingRequest[],
): string {
  const { id, kind, request } = waiting;
  const about = [
    `${id}  ${kind}  ${aboutOf(waiting)}`,
    `    run ${request.runId}, until ${request.expiresAt}`,
  ];
  if (waiting.mayAnswer === false) about.push(`    for ${answererOf(waiting)}`);
  return [...about, ...(kind === 'approval' ? moreAbout(request, all) : [])].join('\n');
}

/**
 * The lines about what can be trusted with a yes to a call, and about the calls of which one
 * decision can be taken.
 */
function moreAbout(
  { mayEndorse = {}, group, changed = [] }: ApprovalRequest,
  all: readonly WaitingRequest[],
): readonly string[] {
  const names = [...(mayEndorse.arguments ?? []), ...(mayEndorse.sources ?? [])];
  const grouped = all.filter(
    (one) => one.kind === 'approval' && group !== undefined && one.request.group === group,
  );
  return [
    ...changed.map(
      ({ field, before, after }) =>
        `    the tool has changed: ${lineOf(JSON.stringify({ [field]: [before ?? null, after ?? null] }))}`,
    ),
    ...(names.length > 0
      ? [`    may be trusted for the rest of the run: ${names.map(lineOf).join(', ')} (--trust)`]
      : []),
    ...(mayEndorse.always
      ? [
          `    an operator may trust for good: ${mayEndorse.always.map(lineOf).join(', ')} (--always)`,
        ]
      : []),
    ...(grouped.length > 1
      ? [`    one of ${grouped.length} of a kind: ${grouped.map(({ id }) => id).join(' ')}`]
      : []),
  ];
}

/** The words for the people whose answer counts, where this person's does not. */
export function answererOf({ roles = [] }: WaitingRequest): string {
  return roles.length > 0
    ? `someone with the role ${roles.map(lineOf).join(' or ')}`
    : 'another person';
}

/** The words for something that waits, in one line. */
export function aboutOf({ kind, request }: WaitingRequest): string {
  if (kind === 'question') return lineOf(request.question);
  if (kind === 'rehearsal') return `${request.calls.length} changes of a rehearsal`;
  const about = `${request.tool} ${JSON.stringify(request.args)}`;
  if (kind !== 'approval') return lineOf(about);
  const changed = request.changed
    ? `; the tool has changed since this was asked before: ${request.changed.map(({ field }) => field).join(', ')}`
    : '';
  return lineOf(`${request.preview?.sentence ?? about} (${request.reason}${changed})`);
}

/** The options of a decision. */
export interface DecisionOptions {
  readonly reason?: string;
  /** The arguments and sources that are trusted for the rest of the run. */
  readonly trust?: readonly string[];
  /** The argument whose value an operator trusts for good. */
  readonly always?: string;
}

/** Decides about an approval of the inbox, or about several of one group. */
export async function decided(
  counterpart: Counterpart,
  ids: readonly [string, ...string[]],
  decision: 'approve' | 'deny',
  options: DecisionOptions,
): Promise<Answer> {
  const [id, ...also] = ids;
  const waiting = await waitingOf(counterpart, id);
  if (!waiting)
    throw new CommandError(
      `Nothing in the inbox has the id "${id}". "toolloop inbox" lists what waits.`,
    );
  const { runId } = waiting.request;
  const isMore = also.length > 0 || options.trust !== undefined || options.always !== undefined;
  if (waiting.kind === 'approval' && isMore)
    await counterpart.decide(verdictOf(waiting.request, ids, decision, options));
  else await counterpart.answer(runId, replyOf(waiting, decision, { ...options, isMore }));
  const value = { id, ...(also.length > 0 && { also }), decision, runId };
  return { value, text: `${decision === 'approve' ? 'Approved' : 'Denied'}. The run is ${runId}.` };
}

/** Finds a request in the pages of an inbox. */
async function waitingOf(
  counterpart: Counterpart,
  id: string,
): Promise<WaitingRequest | undefined> {
  for (let after: string | undefined; ;) {
    const page = await counterpart.inbox({ limit: PAGE, ...(after !== undefined && { after }) });
    const found = page.find((one) => one.id === id);
    if (found || page.length < PAGE) return found;
    after = page.at(-1)?.id;
  }
}

const PAGE = 100;

function replyOf(
  { kind, id }: WaitingRequest,
  decision: Verdict['decision'],
  { reason, isMore }: DecisionOptions & { readonly isMore: boolean },
): PendingReply {
  const said = { decision, ...(reason !== undefined && { reason }) };
  if (isMore)
    throw new CommandError(
      `"${id}" is no approval of a call, so it is decided by itself and trusts nothing.`,
    );
  if (kind === 'approval') return { approvalId: id, ...said };
  if (kind === 'rehearsal') return { rehearsalId: id, ...said };
  throw new CommandError(`"${id}" is no approval: it is answered in the conversation that asked.`);
}

function verdictOf(
  { mayEndorse: { sources = [] } = {} }: ApprovalRequest,
  approvalIds: Verdict['approvalIds'],
  decision: Verdict['decision'],
  { reason, trust = [], always }: DecisionOptions,
): Verdict {
  if (approvalIds.length > 1 && (trust.length > 0 || always !== undefined))
    throw new CommandError(
      'A decision about several calls trusts nothing. Name one call, or leave out --trust and --always.',
    );
  const endorse = {
    arguments: trust.filter((name) => !sources.includes(name)),
    sources: trust.filter((name) => sources.includes(name)),
  };
  return {
    approvalIds,
    decision,
    reason,
    endorse: trust.length > 0 ? endorse : undefined,
    always: lastingTrustIn(always, reason),
  };
}

function lastingTrustIn(
  argument: string | undefined,
  reason: string | undefined,
): Verdict['always'] {
  if (argument === undefined) return undefined;
  if (reason === undefined)
    throw new CommandError('--always needs a --reason: it stays with the value.');
  return { argument, reason };
}

/** Lists the actor's runs, the newest first. */
export async function runsOf(counterpart: Counterpart, status?: string): Promise<Answer> {
  if (status !== undefined && !isStatus(status))
    throw new CommandError(`--status is one of ${STATUSES.join(', ')}.`);
  const value = await counterpart.runs(status === undefined ? {} : { status });
  return { value, text: runsText(value) };
}

/**
 * Rehearses a run with another model or policy; exits with 1 where a decision turns out otherwise,
 * and where the other model has come to no answer.
 *
 * @throws {CommandError} Where neither is named, with those that there are.
 */
export async function rehearsalOf(
  counterpart: Counterpart,
  runId: string,
  terms: RehearsalTerms,
): Promise<Answer> {
  if (terms.model === undefined && terms.policy === undefined) {
    const { models, policies } = await counterpart.rehearsalChoices();
    throw new CommandError(
      `Name --model (${namesIn(models)}), --policy (${namesIn(policies)}), or both.`,
    );
  }
  const value = await counterpart.rehearse(runId, terms);
  const flips = value.calls.filter(({ flipped }) => flipped).length;
  const lines = table(value.calls.map(comparedWords));
  const unfinished = unfinishedWords(value);
  const text = `${unfinished}${flips} of ${value.calls.length} decisions would turn out otherwise.`;
  return {
    value,
    text: value.calls.length === 0 ? text : `${text}\n${lines}`,
    exitCode: flips === 0 && unfinished === '' ? 0 : 1,
  };
}

/**
 * Says of a rehearsal whose model has come to no answer how it ended: no decision has turned out
 * otherwise in calls that were never made.
 */
function unfinishedWords({ finishReason = 'stop', rehearsedBy = '' }: RehearsedRun): string {
  if (finishReason === 'stop') return '';
  return `The other model has come to no answer: its run ${rehearsedBy} ended as "${finishReason}", so the calls below are not all that it would make.\n`;
}

function namesIn(names: readonly string[]): string {
  return names.length === 0 ? 'there is none' : names.map(lineOf).join(', ');
}

function comparedWords({
  step,
  declaredId,
  recorded,
  candidate,
  flipped,
  why,
}: ComparedCall): readonly string[] {
  const [before, after] = [
    decisionWords(recorded, 'not called'),
    decisionWords(candidate, NO_DECISION[why ?? 'not_made']),
  ];
  return [`${step}`, lineOf(declaredId), before, '->', after, flipped ? 'otherwise' : ''];
}

function decisionWords(decision: Decision | undefined, none: string): string {
  return decision ? `${decision.kind} (${lineOf(decision.rule)})` : none;
}

const NO_DECISION: Readonly<Record<NonNullable<ComparedCall['why']>, string>> = {
  not_made: 'not called',
  tool_gone: 'its tool is gone',
  no_arguments: 'its arguments are not kept',
  sub_run: 'made in a sub-run',
};

const STATUSES: readonly Run['status'][] = ['queued', 'running', 'waiting', 'ended'];

function isStatus(text: string): text is Run['status'] {
  return STATUSES.some((status) => status === text);
}

export function runsText(runs: readonly Run[]): string {
  if (runs.length === 0) return 'There are no runs.';
  return table(
    runs.map(({ runId, status, finishReason, waitingFor, createdAt }) => {
      const state =
        status === 'waiting'
          ? `waits for ${waitedFor(waitingFor)}`
          : [status, finishReason].filter(Boolean).join(': ');
      return [runId, state, createdAt];
    }),
  );
}

/** The options that show a page of the console in place of an answer. */
export interface OpenOptions {
  readonly open?: boolean;
  /** The path of the console, below the address of the application. */
  readonly console: string;
}

/** A place in the console, of parts that may be ids. */
export function placed(...parts: readonly string[]): string {
  return parts.map((part) => encodeURIComponent(addressable(part))).join('/');
}

/**
 * Opens a place of the console in the browser, which is the one that `BROWSER` names or that of the
 * system.
 *
 * @throws {CommandError} For an application that is booted for the command, a path that is an
 *   address, and where no browser can be started.
 */
export async function opened(
  { url, console: path }: OpenOptions & { readonly url?: string },
  place: string,
): Promise<Answer> {
  if (url === undefined)
    throw new CommandError(
      '--open shows a page of an application that listens. Start it, and give --url; --app listens nowhere.',
    );
  if (/[:?#]/.test(path))
    throw new CommandError(
      '--console is a path below --url, such as "console", and no address. Give the address itself as --url.',
    );
  const address = `${url.replace(/\/+$/, '')}/${path.replace(/^\/+|\/+$/g, '')}#/${place}`;
  const [command = '', ...args] = process.env['BROWSER']
    ? [process.env['BROWSER']]
    : (BROWSERS[process.platform] ?? ['xdg-open']);
  const browser = spawn(command, [...args, address], { detached: true, stdio: 'ignore' });
  await once(browser, 'spawn').catch((error: unknown) => {
    throw new CommandError(
      `No browser could be started (${lineOf(String(error))}). Open it yourself: ${address}`,
    );
  });
  browser.unref();
  return { value: { url: address }, text: `Opened ${address}` };
}

const BROWSERS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** The options of a verification. */
export interface AuditOptions {
  readonly keyEnv: readonly string[];
  readonly head?: string;
  readonly tenant?: string;
}

/** Reads an export that was kept in files. */
export function auditIn(file: string, { head }: AuditOptions): ExportedAudit {
  return {
    lines: createReadStream(file),
    head: head === undefined ? undefined : jsonOf(readFileSync(head, 'utf8'), head),
  };
}

/** Verifies a tenant's audit; exits with 1 where an entry was changed, moved or cut. */
export async function verified(
  { lines, head }: ExportedAudit,
  { keyEnv, tenant }: AuditOptions,
): Promise<Answer> {
  const { isSignedHead, readAuditLines, verifyAudit } = await packageNear<
    typeof import('@toolloop/core/audit')
  >('@toolloop/core/audit', '.');
  if (head !== undefined && !isSignedHead(head))
    throw new CommandError('The head is no exported head of an audit.');
  const value = await verifyAudit(readAuditLines(bytesOf(lines)), {
    keys: keysIn(keyEnv),
    ...(head !== undefined && { head }),
    ...(tenant !== undefined && { tenant }),
  });
  if (!value.valid) return { value, exitCode: 1, text: `The audit is not valid. ${value.message}` };
  if (value.entries === 0 && head === undefined)
    throw new CommandError('There is nothing to check: there are no entries, and no head.');
  const end = head
    ? `None of the ${head.sequence} entries of ${head.at} was cut.`
    : 'Without a head, entries cut from the end do not show.';
  return {
    value,
    text: `The audit of ${value.tenant ?? 'no tenant'} is valid: ${value.entries} entries, unchanged and in order. ${end}`,
  };
}

/**
 * Reads the keys of an audit from the environment; one that was given no id stands alone, as an
 * application may give it.
 */
function keysIn(keyEnv: readonly string[]): AuditKeys {
  const [first, ...former] = keyEnv;
  if (first !== undefined && former.length === 0 && !first.includes('=')) return secretIn(first);
  return keyEnv.map((named) => {
    const [, id, variable = named] = /^(.+)=([^=]+)$/.exec(named) ?? [];
    return { id: id ?? '1', secret: secretIn(variable) };
  });
}

function secretIn(variable: string): string {
  const secret = process.env[variable];
  if (!secret)
    throw new CommandError(
      `The environment variable ${variable}, which holds the key of the audit, is not set.`,
    );
  return secret;
}

async function* bytesOf(chunks: AsyncIterable<Uint8Array | string>): AsyncIterable<Buffer> {
  for await (const chunk of chunks) yield Buffer.from(chunk);
}
