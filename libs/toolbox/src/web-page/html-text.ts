import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { ToolError } from '@toolloop/core';

/** What people read on a page. */
export interface HtmlText {
  readonly title: string;
  readonly text: string;
}

/** Compiled, this file and the worker are JavaScript; from the sources, Node strips the worker's types. */
const WORKER = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? './html.worker.ts' : './html.worker.js', import.meta.url));
const LIMITS = { maxOldGenerationSizeMb: 256 };

/**
 * Takes the text out of a document in a thread of its own: a page can be written so that a parser takes minutes for it, and a thread can be ended.
 * `base` is what relative links stand for. Throws a `ToolError` when the document is too much for the thread, or the reason of the signal.
 */
export async function htmlToText(html: string, base: URL, signal: AbortSignal): Promise<HtmlText> {
  signal.throwIfAborted();
  const worker = new Worker(WORKER, { workerData: { html, base: base.href }, resourceLimits: LIMITS, execArgv: [], env: {} });
  const settled = new AbortController();
  try {
    return await new Promise<HtmlText>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true, signal: settled.signal });
      worker.once('message', (message: unknown) => (isHtmlText(message) ? resolve(message) : reject(unreadable())));
      worker.once('error', (cause) => reject(unreadable(cause)));
      worker.once('exit', () => reject(unreadable()));
    });
  } finally {
    settled.abort();
    void worker.terminate();
  }
}

function unreadable(cause?: unknown): ToolError {
  return new ToolError('The page is built in a way that cannot be read. Use another source.', { cause });
}

function isHtmlText(message: unknown): message is HtmlText {
  if (typeof message !== 'object' || message === null || !('title' in message) || !('text' in message)) return false;
  return typeof message.title === 'string' && typeof message.text === 'string';
}
