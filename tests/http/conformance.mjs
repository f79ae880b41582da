// Runs scenarios of the conformance tool one after the other in one process: `node conformance.mjs TOOL URL SCENARIO...`.
// The tool imports `globSync` from `fs`, which Node.js has since 22; no server scenario calls it.
import { register } from "node:module";
import { pathToFileURL } from "node:url";

const shim = `export * from "node:fs"; export const globSync = () => { throw new Error("needs Node.js 22"); };`;
const hooks = `
  const shim = ${JSON.stringify(`data:text/javascript,${encodeURIComponent(shim)}`)};
  export const resolve = (specifier, context, next) =>
    specifier === "fs" && context.parentURL?.includes("/conformance/dist/index.js")
      ? { url: shim, shortCircuit: true }
      : next(specifier, context);
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

const [tool, url, ...scenarios] = process.argv.slice(2);
for (const scenario of scenarios) {
  const code = await new Promise((ended) => {
    process.exit = ended; // the tool ends with it, and the first code counts
    process.argv = [process.argv[0], tool, "server", "--url", url, "--scenario", scenario];
    import(`${pathToFileURL(tool)}?${scenario}`); // a module of its own, so that it runs again
  });
  console.log(`\n@@@ ${scenario} ${code}`);
}
