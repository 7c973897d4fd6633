import { existsSync, readdirSync } from 'node:fs';

/**
 * Which library may import which. A row names only rows above it, and one without a folder is
 * planned; the demo in `src/` may import all but `testing`.
 */
export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  core: ['protocol'],
  wire: ['protocol'],
  openai: ['protocol', 'wire'],
  anthropic: ['protocol', 'wire'],
  offline: ['protocol', 'core'],
  toolbox: ['protocol', 'core'],
  resources: ['protocol', 'core'],
  durable: ['protocol', 'core'],
  mcp: ['protocol', 'core'],
  'ui-stream': ['protocol'],
  http: ['protocol', 'core', 'ui-stream'],
  console: ['protocol', 'core', 'http'],
  client: ['protocol'],
  react: ['protocol', 'client'],
  telemetry: ['protocol', 'core'],
  testing: ['protocol', 'core', 'resources', 'ui-stream'],
  evals: ['protocol', 'core', 'testing'],
  cli: ['protocol', 'core', 'resources', 'mcp', 'client', 'http', 'evals'],
};

/**
 * The folders of `core/src` in the order of the data. A folder imports only itself and folders
 * before it. `loop` and `run` are one step: a run's state has no type of its own yet.
 */
export const CORE_FOLDERS: readonly (readonly string[])[] = [
  ['findings'],
  ['contracts'],
  ['plugin'],
  ['tools/decorators'],
  ['schema'],
  ['tools/nest', 'tools/discovery'],
  ['catalog'],
  ['policy'],
  ['call'],
  ['models'],
  ['memory'],
  ['loop', 'run'],
  ['runs'],
  ['module'],
  ['internal'],
];

/**
 * The folder of the features. Each is a folder of its own, which others may import until the
 * kernel has ports for them.
 */
export const PLUGINS = 'plugins';

/** The libraries for which `@toolloop/core/internal` is. */
export const INTERNAL_READERS: readonly string[] = [
  'console',
  'durable',
  'http',
  'mcp',
  'resources',
  'testing',
];

/** Names that say nothing about what is inside. */
export const NAMELESS_FOLDERS: readonly string[] = [
  'utils',
  'helpers',
  'common',
  'shared',
  'types',
  'interfaces',
];

/** The packages with sources; `create-toolloop` is one script. */
export const LIBRARIES: readonly string[] = readdirSync('libs').filter((library) =>
  existsSync(`libs/${library}/src`),
);
