/** Runs in a thread of its own; see fetch-page.ts. What is written here must run with its types stripped. */
import { parentPort, workerData } from 'node:worker_threads';
import { convert, type FormatCallback, type HtmlToTextOptions } from 'html-to-text';

/** Deeper than any page that people wrote, and shallow enough for the stack. */
const MAX_DEPTH = 200;

/** Elements that people do not read: they lead through the site, or cannot be seen. */
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
    { selector: 'a', options: { pathRewrite: absolute, hideLinkHrefIfSameAsText: true, noAnchorUrl: true } },
  ],
};
const title: HtmlToTextOptions = {
  wordwrap: false,
  limits: { maxDepth: MAX_DEPTH, maxBaseElements: 1 },
  baseElements: { selectors: ['title'], returnDomByDefault: false },
};

parentPort?.postMessage({ title: convert(html, title), text: convert(html, text) }, []);

/** Cells stand side by side, as the columns of a table do; a column of one width would be padding for a model to read. */
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
