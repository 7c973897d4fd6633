import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

/**
 * The page is served under any path: its addresses are relative, and the server says where they
 * begin.
 */
export default defineConfig(({ mode }) => ({
  root: pathOf('page'),
  base: './',
  resolve: { conditions: ['@toolloop/source', 'module', 'browser', 'production'] },
  build: {
    outDir: pathOf(mode === 'fixtures' ? 'dist/fixtures' : 'dist/page'),
    emptyOutDir: true,
    target: 'es2023',
    // a strict policy of contents has no place for data: in scripts and styles
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      input: pathOf(mode === 'fixtures' ? 'page/fixtures.html' : 'page/index.html'),
    },
  },
}));
