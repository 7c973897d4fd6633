/** Which library may import which. A row names only rows above it; the demo in `src/` may import all but `testing`. */
export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  wire: ['core'],
  openai: ['core', 'wire'],
  anthropic: ['core', 'wire'],
  offline: ['core'],
  toolbox: ['core'],
  resources: ['core'],
  durable: ['core'],
  mcp: ['core'],
  'ui-stream': ['core'],
  telemetry: ['core'],
  testing: ['core', 'resources', 'durable', 'ui-stream'],
  console: ['core', 'durable', 'ui-stream'],
};

/** The folders of `core/src` in the order of the data. A folder imports only itself and folders before it. */
export const CORE_FOLDERS: readonly string[] = [
  'protocol',
  'findings',
  'model',
  'decorators',
  'schema',
  'discovery',
  'catalog',
  'policy',
  'approval',
  'audit',
  'execution',
  'injection',
  'loop',
];

/** The libraries for which `@toolloop/core/internal` is. */
export const INTERNAL_READERS: readonly string[] = ['durable', 'testing'];

/** Names that say nothing about what is inside. */
export const NAMELESS_FOLDERS: readonly string[] = ['utils', 'helpers', 'common', 'shared', 'types', 'interfaces'];
