import * as module from 'node:module';

// The maps of this repository alone: `--enable-source-maps` reads those of every package, a tenth
// of the CPU time of a start. Node 22.12 has neither function.
module.setSourceMapsSupport?.(true, { nodeModules: false });
module.enableCompileCache?.();
await import('./main.js');
