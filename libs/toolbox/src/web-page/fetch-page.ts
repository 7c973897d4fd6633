import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { ToolError, ToolField } from '@toolloop/core';
import { type RawToolDeclaration } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsString, MaxLength, MinLength } from 'class-validator';
import { withinTime, type CallContext } from '../call-context.js';
import { EgressGuard, type EgressOptions } from '@toolloop/protocol/egress';
import { contentOf, decode } from './page-content.js';
import { readBody } from './page-body.js';
import { requestPage } from './page-request.js';

/** The input of `web__fetch_page`. */
export class FetchPageInput {
  @ToolField({
    description: 'The full address of the page, with https:// or http://.',
    example: 'https://example.com/article',
  })
  @IsString()
  @MinLength(1)
  @MaxLength(2048)
  readonly url!: string;
}

/** A web page as text. */
export class FetchedPage {
  /** The address as requested. */
  @Expose() readonly url!: string;
  /** The address after redirects. */
  @Expose() readonly finalUrl!: string;
  /** The title; empty if the page has none. */
  @Expose() readonly title!: string;
  @Expose() readonly text!: string;
  /** `true` if the page has more text. */
  @Expose() readonly truncated!: boolean;

  constructor(page: FetchedPage) {
    Object.assign(this, page);
  }
}

/**
 * Reads a page of the public web as text, and no page of this machine's network. An address can
 * carry data out, hence `egress`.
 */
export class FetchPage {
  static readonly shortName: string = 'web_page_fetch';
  static readonly tool: RawToolDeclaration<FetchPageInput> = {
    id: 'web__fetch_page',
    description:
      'Reads a public web page as text. Works for HTML, plain text, JSON and XML. Links follow their text in brackets.',
    effect: 'read_only',
    labels: { egress: true, returns: 'untrusted', reads: 'public' },
    input: FetchPageInput,
    output: FetchedPage,
  };

  private readonly guard: EgressGuard;
  private readonly options: Required<Omit<FetchPageOptions, keyof EgressOptions>>;

  constructor(options: FetchPageOptions = {}) {
    const {
      maxBytes = 2_000_000,
      maxCharacters = 24_000,
      timeoutMs = 15_000,
      userAgent = 'Toolloop',
    } = options;
    this.guard = new EgressGuard(options);
    this.options = { maxBytes, maxCharacters, timeoutMs, userAgent };
  }

  /**
   * Reads a page. Reports `{ url }` as progress before each request.
   *
   * @throws ToolError if the page cannot be read, with a hint for the model
   * @throws the reason of an aborted signal
   */
  async call({ url }: FetchPageInput, context: CallContext = {}): Promise<FetchedPage> {
    const timeUp = 'The page took too long. Try again later, or use another source.';
    return withinTime({ ms: this.options.timeoutMs, signal: context.signal, timeUp }, (signal) =>
      this.fetch(url, signal, context),
    );
  }

  private async fetch(
    address: string,
    signal: AbortSignal,
    context: CallContext,
  ): Promise<FetchedPage> {
    const { guard, options } = this;
    const onRequest = (asked: URL) => context.progress?.({ url: asked.href });
    const { url, message } = await requestPage(address, {
      guard,
      signal,
      userAgent: options.userAgent,
      onRequest,
    });
    try {
      const { kind, charset } = contentOf(message.headers['content-type']);
      const body = await readBody(message, options.maxBytes);
      const content = decode(body.bytes, charset);
      const { title, text } =
        kind === 'html' ? await htmlToText(content, url, signal) : { title: '', text: content };
      const shown = beginningOf(text, options.maxCharacters);
      const truncated = body.truncated || shown.length < text.length;
      return new FetchedPage({
        url: address,
        finalUrl: url.href,
        title: beginningOf(title, 300),
        text: shown,
        truncated,
      });
    } finally {
      message.destroy();
    }
  }
}

export interface FetchPageOptions extends EgressOptions {
  /** The most bytes that are read of a page, after decompression. @default 2_000_000 */
  readonly maxBytes?: number;
  /** The most characters of text that the model reads. @default 24_000 */
  readonly maxCharacters?: number;
  /** The milliseconds for redirects, body and text together. @default 15_000 */
  readonly timeoutMs?: number;
  /** The `User-Agent` header. @default 'Toolloop' */
  readonly userAgent?: string;
}

/** Cuts a text to a number of characters without breaking one. */
function beginningOf(text: string, length: number): string {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '');
}

/** The title and the text of a page. */
interface HtmlText {
  readonly title: string;
  readonly text: string;
}

/**
 * The worker's file. Compiled, this file and the worker are JavaScript; from the sources, Node
 * strips the worker's types.
 */
const WORKER = fileURLToPath(
  new URL(
    import.meta.url.endsWith('.ts') ? './html-worker.ts' : './html-worker.js',
    import.meta.url,
  ),
);
const LIMITS = { maxOldGenerationSizeMb: 256 };

/**
 * Extracts the text of a document in a thread of its own: a page can be written so that a parser
 * takes minutes for it, and a thread can be ended. Relative links are resolved against `base`.
 * Rejects with a `ToolError` when the document is too much for the thread, or with the reason of
 * the signal.
 */
async function htmlToText(html: string, base: URL, signal: AbortSignal): Promise<HtmlText> {
  signal.throwIfAborted();
  const worker = new Worker(WORKER, {
    workerData: { html, base: base.href },
    resourceLimits: LIMITS,
    execArgv: [],
    env: {},
  });
  const settled = new AbortController();
  try {
    return await new Promise<HtmlText>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), {
        once: true,
        signal: settled.signal,
      });
      worker.once('message', (message: unknown) =>
        isHtmlText(message) ? resolve(message) : reject(unreadable()),
      );
      worker.once('error', (cause) => reject(unreadable(cause)));
      worker.once('exit', () => reject(unreadable()));
    });
  } finally {
    settled.abort();
    void worker.terminate();
  }
}

function unreadable(cause?: unknown): ToolError {
  return new ToolError('The page is built in a way that cannot be read. Use another source.', {
    cause,
  });
}

function isHtmlText(message: unknown): message is HtmlText {
  if (
    typeof message !== 'object' ||
    message === null ||
    !('title' in message) ||
    !('text' in message)
  )
    return false;
  return typeof message.title === 'string' && typeof message.text === 'string';
}
