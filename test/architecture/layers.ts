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
 * before it.
 */
export const CORE_FOLDERS: readonly string[] = [
  'findings',
  'contracts',
  'decorators',
  'schema',
  'discovery',
  'catalog',
  'policy',
  'pending',
  'audit',
  'execution',
  'injection',
  'strategies',
  'models',
  'memory',
  'usage',
  'loop',
  'sources',
  'session',
  'history',
  'directives',
  'runs',
  'internal',
];

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
