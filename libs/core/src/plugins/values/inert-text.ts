/**
 * Makes a text harmless for a reader who sees it as Markdown, as HTML or in a terminal: it stays
 * what it says, without links, images and blocks. Renderers such as `remark-gfm` and `markdown-it`
 * make links of bare and of e-mail addresses, also of those that are written with entities or
 * escapes, so that a space stands in each.
 */
export function inertText(text: string): string {
  return withoutMarkup(withoutLinks(withoutUnseen(text)));
}

const [ESCAPE, BELL, COMMAND] = ['\u001B', '\u0007', '\u009B'];

/** The sequences by which a text commands a terminal, with a link of its own among them. */
const ANSI = new RegExp(
  [
    `(?:${ESCAPE}\\[|${COMMAND})[0-?]*[ -/]*[@-~]`,
    `${ESCAPE}\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?`,
    `${ESCAPE}[@-Z\\\\-_]`,
  ].join('|'),
  'g',
);
const LINE_ENDS = /\r\n?|[\u0085\u2028\u2029]/g;
/**
 * The characters that no one sees, or that turn the direction of others; all but the line feed, and
 * the joiner of emoji.
 */
const UNSEEN = /(?![\n\u200D])[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu;

function withoutUnseen(text: string): string {
  return text
    .replaceAll(ANSI, '')
    .replaceAll(LINE_ENDS, '\n')
    .replaceAll('\t', ' ')
    .replaceAll(UNSEEN, '');
}

function withoutMarkup(text: string): string {
  return (
    text
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll(/[\\`*_[\]()!|~$]/g, String.raw`\$&`)
      .replaceAll(/^ +/gm, ' ') // four begin a block of code
      // a heading, a line, a list, the head of a table
      .replaceAll(/^( ?)([#+=:-])/gm, String.raw`$1\$2`)
      .replaceAll(/^( ?\d{1,9})\./gm, String.raw`$1\.`)
  );
}

function withoutLinks(text: string): string {
  return text
    .replaceAll(/\/(?=\/)/g, '/ ')
    .replaceAll(/(javascript|vbscript|data|mailto|xmpp|www)(?=[:.])/gi, '$1 ')
    .replaceAll(/@(?=\S)/g, '@ ')
    .replaceAll(/(?<=[\p{L}\p{N}_-])\.(?=\p{L}{2})/gu, ' .');
}
