import { registerHooks } from 'node:module';
import { relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HOOK, instrumented } from './instrumented.js';

// The sources of core are instrumented before the first of them is loaded: the traced run is
// therefore imported after this.
Object.assign(globalThis, { [HOOK]: () => undefined });
registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const file = url.startsWith('file:')
      ? relative('.', fileURLToPath(url)).replaceAll(sep, '/')
      : '';
    if (!file.startsWith('libs/core/src/') || loaded.source === undefined || loaded.source === null)
      return loaded;
    const javascript =
      typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source);
    return { ...loaded, source: instrumented(file, javascript) };
  },
});

const { traceRun } = await import('./read-call.js');
process.stdout.write(JSON.stringify(await traceRun()));
