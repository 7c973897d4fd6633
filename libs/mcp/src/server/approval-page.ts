import { PendingError, type PendingService } from '@toolloop/core';
import type { Respondent } from '@toolloop/core/loop';
import { type ApprovalRequest, isObject } from '@toolloop/protocol';
import { type Guesses, MOST_GUESSES } from './guesses.js';
import type { Asked } from './http-requests.js';
import type { McpServerOptions } from './server-options.js';

/**
 * Shows a call to a person and takes the decision. Who visits is asked of the application each
 * time; a token of an MCP client identifies no one here, since the client would approve its own
 * calls with it. A visitor who types a word learns nothing of it but where it lets them decide, and
 * is slowed down after some that do not.
 */
export async function approvalPage(
  asked: Asked,
  { approvalId, body }: ApprovalAsked,
  answering: Answering,
): Promise<Response> {
  const { options, guesses } = answering;
  if (!options.approver || !METHODS.has(asked.method))
    return page(404, '<p>There is no such page.</p>');
  // Another site could send the form in the person's name. It cannot say that it is this one.
  if (asked.method === 'POST' && asked.header('origin') === undefined)
    return page(403, '<p>Send the form from this page.</p>');
  const form = formIn(asked, body);
  const visit = {
    asked,
    approvalId,
    credential: textIn(form['credential']),
    decision: form['decision'],
  };
  if (visit.credential === undefined)
    return (await answered(visit, answering)) ?? page(401, signIn('Who are you?'));
  const keys = [`address ${asked.address}`, `approval ${approvalId}`];
  const waitMs = guesses.take(keys);
  if (waitMs > 0) return tooManyGuesses(waitMs);
  const answer = await answered(visit, answering);
  if (!answer)
    return page(401, signIn('That is not known here, or does not decide about this call.'));
  guesses.giveBack(keys);
  return answer;
}

/** The visit of a page: the approval it is about, and the form that was sent. */
export interface ApprovalAsked {
  readonly approvalId: string;
  readonly body: unknown;
}

interface Answering {
  readonly options: Pick<McpServerOptions, 'approver' | 'verifier'>;
  readonly pending: PendingService;
  readonly guesses: Guesses;
}

interface Visit extends Pick<ApprovalAsked, 'approvalId'> {
  readonly asked: Asked;
  /** The word that was typed. */
  readonly credential: string | undefined;
  readonly decision: unknown;
}

/**
 * Answers a person whom the application knows; undefined for any other, and where the word of one
 * does not let them see the call: neither tells whether the word is one.
 */
async function answered(
  { asked, approvalId, credential, decision }: Visit,
  { options, pending }: Answering,
): Promise<Response | undefined> {
  const { authorization: _, ...headers } = asked.headers;
  const isClient =
    credential !== undefined && (await options.verifier.verify(credential)) !== undefined;
  const person = isClient
    ? undefined
    : await options.approver?.({ headers, ...(credential !== undefined && { credential }) });
  if (!person) return undefined;
  try {
    return await decided(decision, {
      approvalId,
      person,
      pending,
      isTyped: credential !== undefined,
    });
  } catch (error) {
    if (!(error instanceof PendingError)) throw error;
    if (credential !== undefined && TELLS_OF_A_WORD.has(error.code)) return undefined;
    return page(STATUS[error.code], `<p>${escaped(error.message)}</p>`);
  }
}

/**
 * The errors that anyone with a right word would get for an approval of which they may know
 * nothing.
 */
const TELLS_OF_A_WORD: ReadonlySet<PendingError['code']> = new Set([
  'not_found',
  'not_permitted',
  'invalid_answer',
]);

function tooManyGuesses(waitMs: number): Response {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const answer = page(
    429,
    `<p>These were ${MOST_GUESSES} tries within a minute. Wait ${seconds} s.</p>`,
  );
  answer.headers.set('retry-after', String(seconds));
  return answer;
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST']);

function formIn({ method }: Asked, body: unknown): Readonly<Record<string, unknown>> {
  return method === 'POST' && isObject(body) ? body : {};
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

interface Deciding {
  readonly approvalId: string;
  readonly person: Respondent;
  readonly pending: PendingService;
  /** True if the person has to type the credential again to decide. */
  readonly isTyped: boolean;
}

async function decided(
  decision: unknown,
  { approvalId, person, pending, isTyped }: Deciding,
): Promise<Response> {
  if (decision === 'approve' || decision === 'deny') {
    await pending.decide({ approvalId, decision }, person);
    return page(
      200,
      `<p>The call was ${decision === 'approve' ? 'approved' : 'denied'}. You can close this page.</p>`,
    );
  }
  const { request, answer } = await pending.get(approvalId, person);
  return page(200, answer ? '<p>This call was decided on already.</p>' : shown(request, isTyped));
}

const STATUS: Readonly<Record<PendingError['code'], number>> = {
  not_found: 404,
  not_permitted: 403,
  invalid_answer: 400,
  already_answered: 409,
  expired: 409,
  withdrawn: 409,
  held: 409,
};

const CREDENTIAL =
  '<p><label>Your credential <input type="password" name="credential" autocomplete="off" required></label></p>';

function signIn(words: string): string {
  return `<p>${words}</p><form method="post">${CREDENTIAL}<button>Show the call</button></form>`;
}

function shown(
  { tool, presentation, reason, args, preview, changed, expiresAt }: ApprovalRequest,
  isTyped: boolean,
): string {
  const parts = [
    `<h1>${escaped(presentation?.confirm ?? presentation?.label ?? tool)}</h1>`,
    `<p>${escaped(reason)}</p>`,
    `<p>Tool: <code>${escaped(tool)}</code></p><pre>${escaped(JSON.stringify(args, undefined, 2))}</pre>`,
    ...(changed
      ? [
          `<p>The tool has changed since this was asked before:</p><pre>${escaped(JSON.stringify(changed, undefined, 2))}</pre>`,
        ]
      : []),
    ...(preview
      ? [`<p>Preview:</p><pre>${escaped(JSON.stringify(preview, undefined, 2))}</pre>`]
      : []),
    `<p>It can be decided until ${escaped(expiresAt)}.</p>`,
    `<form method="post">${isTyped ? CREDENTIAL : ''}<button name="decision" value="approve">Approve</button> <button name="decision" value="deny">Deny</button></form>`,
  ];
  return parts.join('\n');
}

const HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
};

function page(status: number, content: string): Response {
  const html = `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Approval</title>\n${content}\n</html>\n`;
  return new Response(html, { status, headers: HEADERS });
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
