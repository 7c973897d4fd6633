import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import { checkLinks } from '../check-links.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8'));
const elsewhere = read('elsewhere.json');
const sections = read('sidebar.json');
const api = existsSync(join(root, 'docs/reference/api/sidebar.json'))
  ? JSON.parse(readFileSync(join(root, 'docs/reference/api/sidebar.json'), 'utf8'))
  : [];

/**
 * The address of each page of the repository that lies outside of its place in the site, by its
 * path.
 */
const addresses = new Map(Object.entries(elsewhere).map(([link, page]) => [page, link]));

/** The address of a page of the repository; undefined for a file that is no page of the site. */
function addressOf(page) {
  const moved = addresses.get(page);
  if (moved !== undefined) return moved;
  const inDocs = /^docs\/(?!README|decisions\/)(.+)\.md$/.exec(page)?.[1];
  return inDocs === undefined ? undefined : `/${inDocs.replace(/(^|\/)index$/, '$1')}`;
}

/**
 * Has links lead to pages of the site, which may lie elsewhere than their files. What is no page of
 * it, such as a source file, is shown without a link.
 */
function siteLinks(md) {
  md.core.ruler.push('site-links', ({ tokens, env }) => {
    const page = relative(root, env.path ?? '');
    for (const { children } of tokens) {
      for (const [index, token] of (children ?? []).entries()) {
        const href = token.type === 'link_open' ? token.attrGet('href') : undefined;
        if (!href || /^(?:[a-z]+:|#|\/)/.test(href)) continue;
        const [path, anchor] = href.split('#');
        const address =
          addressOf(join(dirname(page), path)) ?? addressOf(join(dirname(page), path, 'README.md'));
        if (address !== undefined)
          token.attrSet('href', `${address}${anchor === undefined ? '' : `#${anchor}`}`);
        else unlink(children, index);
      }
    }
  });
}

function unlink(children, index) {
  const end = children.findIndex((token, at) => at > index && token.type === 'link_close');
  for (const at of [index, end])
    Object.assign(children[at], {
      type: 'html_inline',
      tag: '',
      content: '',
      attrs: null,
      nesting: 0,
    });
}

/** Shows the name of the file above a code block that has one. */
function fileNames(md) {
  const fence = md.renderer.rules.fence;
  md.renderer.rules.fence = (...args) => {
    const [tokens, index] = args;
    const [, name] = /\[([\w./-]+)\]/.exec(tokens[index].info) ?? [];
    return name === undefined
      ? fence(...args)
      : `<p class="file-name"><code>${name}</code></p>\n${fence(...args)}`;
  };
}

/** The pages in their order, as texts with their address and their title. */
function pagesInOrder() {
  return [...sections, ...api].flatMap(({ text: section, items }) =>
    items.map(({ text, link }) => {
      const file = join(
        root,
        elsewhere[link] ?? `docs${link.endsWith('/') ? `${link}index` : link}.md`,
      );
      return { section, text, link, content: readFileSync(file, 'utf8') };
    }),
  );
}

/**
 * Writes what coding assistants read: `llms.txt` with one line a page, `llms-full.txt` with all of
 * them, and each page as Markdown.
 */
function writeTexts(outDir) {
  const pages = pagesInOrder();
  const fileOf = (link) => `${link.endsWith('/') ? `${link}index` : link}.md`;
  for (const { link, content } of pages) {
    const file = join(outDir, fileOf(link));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  const lines = sections.map(
    ({ text, items }) =>
      `## ${text}\n\n${items.map((item) => `- [${item.text}](${fileOf(item.link)})`).join('\n')}\n`,
  );
  writeFileSync(
    join(outDir, 'llms.txt'),
    `# Toolloop\n\n> Lets a language model use a NestJS application: tools, policy, approvals, durable runs.\n\n${lines.join('\n')}`,
  );
  writeFileSync(
    join(outDir, 'llms-full.txt'),
    pages.map(({ content }) => content).join('\n\n---\n\n'),
  );
  cpSync(join(root, 'docs/pictures'), join(outDir, 'pictures'), { recursive: true });
}

/** Has pages that lie outside of this package find Vue in it. */
const vueOfSite = {
  name: 'vue-of-site',
  enforce: 'pre',
  resolveId(source, importer, options) {
    const isOutside = importer !== undefined && !importer.startsWith(join(root, 'docs'));
    return isOutside && /^vue(?:\/|$)/.test(source)
      ? this.resolve(source, join(root, 'docs/index.md'), { ...options, skipSelf: true })
      : undefined;
  },
};

/**
 * A page as the search reads it: of the reference the names alone, or its index would be most of
 * the site.
 */
function searched(source, env, md) {
  const text = env.relativePath.includes('reference/api/')
    ? (source.match(/^#{1,3} .+$/gm) ?? []).join('\n\n')
    : source;
  return md.render(text, env);
}

export default defineConfig({
  title: 'Toolloop',
  description: 'Lets a language model use a NestJS application',
  srcDir: '..',
  head: [['link', { rel: 'icon', href: 'data:,' }]], // or each page asks for one that is not there
  srcExclude: [
    '!(docs|libs|tools|CHANGELOG.md)/**',
    '!(CHANGELOG).md',
    '**/test/**',
    '**/src/**',
    'libs/*/!(README.md)/**',
    'docs/README.md',
    'docs/decisions/**',
    'tools/bench/peers/**',
  ],
  outDir: resolve(root, 'docs/.vitepress/dist'),
  cacheDir: resolve(root, 'docs/.vitepress/cache'),
  cleanUrls: true,
  lastUpdated: false,
  rewrites: (page) => {
    const address = addressOf(page) ?? `/elsewhere/${page}`;
    return `${address.endsWith('/') ? `${address}index` : address}.md`.slice(1);
  },
  vite: { plugins: [vueOfSite] },
  markdown: { config: (md) => void md.use(siteLinks).use(fileNames) },
  themeConfig: {
    search: { provider: 'local', options: { _render: searched } },
    outline: [2, 3],
    nav: [
      { text: 'Start', link: '/start/first-tool' },
      { text: 'Learn', link: '/learn/how-a-run-goes' },
      { text: 'Guides', link: '/guides/guards' },
      { text: 'Fix', link: '/fix/' },
      { text: 'Reference', link: '/reference/events' },
    ],
    sidebar: [...sections, ...api].map((section) => ({
      ...section,
      collapsed: section.text !== 'Start',
    })),
  },
  buildEnd: ({ outDir }) => {
    writeTexts(outDir);
    checkLinks(outDir);
  },
});
