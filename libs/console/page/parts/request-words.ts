import type { WaitingRequest } from '@toolloop/client';
import { visible } from '@toolloop/protocol';
import type { Words } from '../words/words.js';
import { nameOf, summaryOf } from './names.js';

/** The request in one sentence. */
export function sentenceOf({ kind, request }: WaitingRequest, { t }: Words): string {
  if (kind === 'rehearsal') return t('inbox.rehearsal', { n: request.calls.length });
  if (kind === 'question') return visible(request.question);
  const preview = kind === 'approval' ? request.preview?.sentence : undefined;
  return preview === undefined ? nameOf(request.tool, request.presentation) : visible(preview);
}

/** What tells a request from others of its kind, where its sentence does not. */
export function detailOf({ kind, request }: WaitingRequest): string {
  return kind === 'approval' && request.preview === undefined ? summaryOf(request.args) : '';
}

/**
 * The requests of which one decision can be taken: calls of one kind that a step makes, all of
 * which the person may decide.
 */
export function groupOf(
  entry: WaitingRequest,
  all: readonly WaitingRequest[],
): readonly ApprovalEntry[] {
  if (entry.kind !== 'approval') return [];
  const { group } = entry.request;
  const approvals = all.filter(
    (one): one is ApprovalEntry => one.kind === 'approval' && one.mayAnswer === true,
  );
  return group === undefined ? [entry] : approvals.filter(({ request }) => request.group === group);
}

type ApprovalEntry = Extract<WaitingRequest, { readonly kind: 'approval' }>;
