/** The registry file: a composition of two tools, and an agent that uses it. */

import { agent, pipeline, registry, tool } from "registry-dsl";

import { fetchPage, Page, pages, storeNote } from "./pages.ts";

const Link = {
  type: "object",
  properties: { url: { type: "string", format: "uri" } },
  required: ["url"],
  additionalProperties: false,
} as const;

const keepPage = tool("keep_page", "1.0.0", {
  description: "Fetch a web page and keep it as a note",
  inputSchema: Link,
}).composition(
  pipeline(Link)
    .step("page", fetchPage, ({ input }) => ({ url: input.url }))
    .step("note", storeNote, ({ steps }) => ({
      title: steps.page.title,
      text: steps.page.text,
      tags: ["web"],
    })),
);

const reader = agent("reader", "1.0.0", {
  description: "Collects web pages",
  url: "https://reader.example.com",
  protocolVersion: "1.0",
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
})
  .skill("collect", { name: "Collect pages", description: "Keeps the pages behind links", tags: ["web"] })
  .dependsOn(keepPage);

export default registry([Page, pages, fetchPage, storeNote, keepPage, reader]);
