import type { WaitingRequest } from '@toolloop/client';
import type { Words } from '../words/words.js';
import { nameOf } from './names.js';

/** The request in one sentence. */
export function sentenceOf({ kind, request }: WaitingRequest, { t }: Words): string {
  if (kind === 'rehearsal') return t('inbox.rehearsal', { n: request.calls.length });
  if (kind === 'question') return request.question;
  const preview = kind === 'approval' ? request.preview?.sentence : undefined;
  return preview ?? nameOf(request.tool, request.presentation);
}
