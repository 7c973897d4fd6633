/**
 * The worker of fetch-page.ts, which runs in a thread of its own. This file must run with its types
 * stripped.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { convert, type FormatCallback, type HtmlToTextOptions } from 'html-to-text';

/**
 * The deepest nesting that is read: deeper than any hand-written page, and shallow enough for the
 * stack.
 */
const MAX_DEPTH = 200;

/** The elements that are left out: navigation, and elements that are not visible. */
const SKIPPED = [
  'title',
  'nav',
  'footer',
  'svg',
  'template',
  'iframe',
  'noscript',
  'button',
  'select',
  'img',
  '[hidden]',
  '[aria-hidden="true"]',
];
const HEADINGS = ['h1', 'h2', 'h3', 'h4', 'h5', 'h6'];

const { html, base } = input(workerData);

const text: HtmlToTextOptions = {
  wordwrap: false,
  formatters: { cell },
  limits: { maxDepth: MAX_DEPTH, ellipsis: '…' },
  selectors: [
    ...SKIPPED.map((selector) => ({ selector, format: 'skip' })),
    ...HEADINGS.map((selector) => ({ selector, options: { uppercase: false } })),
    ...['td', 'th'].map((selector) => ({ selector, format: 'cell' })),
    { selector: 'tr', format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    {
      selector: 'a',
      options: { pathRewrite: absolute, hideLinkHrefIfSameAsText: true, noAnchorUrl: true },
    },
  ],
};
const title: HtmlToTextOptions = {
  wordwrap: false,
  limits: { maxDepth: MAX_DEPTH, maxBaseElements: 1 },
  baseElements: { selectors: ['title'], returnDomByDefault: false },
};

parentPort?.postMessage({ title: convert(html, title), text: convert(html, text) }, []);

/**
 * Writes a table cell, followed by a separator. Cells are not padded to columns of one width, since
 * a model would have to read the padding.
 */
function cell(...[{ children }, walk, builder]: Parameters<FormatCallback>): void {
  walk(children, builder);
  builder.addInline(' | ');
}

function absolute(href: string): string {
  const url = URL.parse(href, base);
  return url && (url.protocol === 'http:' || url.protocol === 'https:') ? url.href : '';
}

function input(data: unknown): { html: string; base: string } {
  if (typeof data === 'object' && data !== null && 'html' in data && 'base' in data)
    return { html: String(data.html), base: String(data.base) };
  throw new Error('The worker was started without a document.');
}
