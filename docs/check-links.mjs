// Finds the links of a built site that lead to no page, or to no heading of one.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** @throws Error that lists the links which lead nowhere */
export function checkLinks(folder) {
  const pages = new Map(
    readdirSync(folder, { recursive: true })
      .filter((file) => file.endsWith('.html'))
      .map((file) => [file, readFileSync(join(folder, file), 'utf8')]),
  );
  const anchors = new Map(
    [...pages].map(([file, html]) => [
      file,
      new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => decodeURIComponent(id))),
    ]),
  );
  const broken = new Set();
  for (const [file, html] of pages) {
    for (const [, href] of html.matchAll(/<a[^>]* href="([^"]+)"/g)) {
      if (!/^[a-z]+:/.test(href) && !leadsSomewhere(href, file)) broken.add(`${href} (in ${file})`);
    }
  }
  if (broken.size > 0)
    throw new Error(`${broken.size} links lead nowhere:\n${[...broken].slice(0, 40).join('\n')}`);

  function leadsSomewhere(href, from) {
    const [path, anchor] = decodeURIComponent(href).split('#');
    const file = path === '' ? from : `${path.slice(1)}${path.endsWith('/') ? 'index' : ''}.html`;
    const found = anchors.get(file);
    if (!found) return existsSync(join(folder, path));
    // TypeDoc numbers equal headings otherwise than VitePress
    return !anchor || found.has(anchor) || from.startsWith('reference/api/');
  }
}
