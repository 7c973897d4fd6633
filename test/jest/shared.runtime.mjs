import { pathToFileURL } from 'node:url';
import Runtime from 'jest-runtime';

let shared;

/**
 * Loads Nest, the libraries and the sources once in a worker, not once for each of 300 spec files,
 * which is half of the time that they take. A spec file and everything else below `test` is loaded
 * anew, so that no file sees what another one has declared.
 */
export default class SharedRuntime extends Runtime {
  constructor(config, environment, ...given) {
    if (shared) return shared;
    super(config, environment, ...given);
    this.root = `${pathToFileURL(config.rootDir).href}/`;
    this.isShared = environment.isShared;
    if (this.isShared) shared = this;
  }

  teardown() {
    if (!this.isShared) return super.teardown();
    this.restoreAllMocks();
    const { esModuleRegistry: modules, internalModuleRegistry: framework } = this.registries;
    for (const key of modules.keys()) if (this.isOfOneFile(key)) modules.delete(key);
    for (const path of framework.keys()) if (path.includes('jest-circus')) framework.delete(path);
    this.jestGlobals.clearJestObjectCache();
    this.testState.state = 'loading';
  }

  /** `@jest/globals` is made for each file that imports it. */
  isOfOneFile(key) {
    return (
      key.startsWith('@jest/globals') ||
      (key.startsWith(this.root) && /^(?:libs\/[^/]+\/)?test\//.test(key.slice(this.root.length)))
    );
  }
}
