import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { InProcessModel, moduleOf, textOf } from './application.js';
import { freshProviders } from './building.tools.js';

/**
 * Starts one application in a process of its own, where nothing is warm, and tells how many
 * milliseconds it took: by the clock, and of the thread on a CPU. Arguments: count and kind.
 */
const [, , count, kind] = process.argv;
const providers = freshProviders(Number(count), kind === 'tools' ? 'tools' : 'twins');
const module = moduleOf(new InProcessModel(() => textOf('Done.')), providers);
const threadBefore = process.threadCpuUsage();
const before = performance.now();
const app = await NestFactory.createApplicationContext(module, { logger: false });
const wall = performance.now() - before;
const { user, system } = process.threadCpuUsage(threadBefore);
await app.close();
console.log(wall, (user + system) / 1000);
