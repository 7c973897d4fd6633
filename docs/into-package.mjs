// Copies the pages of the site into @toolloop/core, whose tarball brings them: coding assistants read them there, and findings name them.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const docs = fileURLToPath(new URL('.', import.meta.url));
const target = join(docs, '../libs/core/docs');
const sections = JSON.parse(readFileSync(join(docs, '.vitepress/sidebar.json'), 'utf8'));
const elsewhere = JSON.parse(readFileSync(join(docs, '.vitepress/elsewhere.json'), 'utf8'));

rmSync(target, { recursive: true, force: true });
const lines = sections.flatMap(({ text, items }) => [`\n## ${text}\n`, ...items.flatMap((item) => copied(item))]);
writeFileSync(
  join(target, 'llms.txt'),
  `# Toolloop\n\n> Lets a language model use a NestJS application. Paths are relative to this file.\n${lines.join('\n')}\n`,
);

/** The line about a page, which has been copied. The README of another package is in that package. */
function copied({ text, link }) {
  const page = elsewhere[link];
  if (page?.startsWith('libs/')) return [`- ${text}: the README.md of the package`];
  if (page !== undefined && !page.startsWith('docs/')) return [];
  const path = page?.replace(/^docs\//, '') ?? `${link.endsWith('/') ? `${link.slice(1)}index` : link.slice(1)}.md`;
  mkdirSync(dirname(join(target, path)), { recursive: true });
  cpSync(join(docs, path), join(target, path));
  return [`- [${text}](${path})`];
}
